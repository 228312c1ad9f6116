//! Deadlines that close a connection, and the timer that wakes its task for them.

use std::future::Future;
use std::task::Context;
use std::time::Instant;

use super::Connection;
use crate::clients::close_reason::CloseReason;
use crate::net::tls::TlsSession;
use crate::shared::ThreadState;

impl Connection {
    /// Return the deadlines with their close reasons.
    fn deadlines(&self, thread: &ThreadState) -> [Option<(Instant, CloseReason)>; 7] {
        let limits = &thread.settings.limits;
        let muted = self.info.quotas.muted_until();
        // Two cases are no timeouts: a peer that waits for a reply is not idle, and a peer that the broker does not
        // read from cannot complete its frame.
        let waits_for_us = !self.slots.is_empty() || muted.is_some();
        let tls = self.tls.as_deref();
        [
            (self.slots.is_empty() && self.is_flushed())
                .then(|| (self.active + limits.idle, CloseReason::Idle)),
            self.incoming
                .partial_since()
                .filter(|_| !waits_for_us && self.is_flushed())
                .map(|since| {
                    (
                        since.max(self.resumed) + limits.frame_stall,
                        CloseReason::FrameStalled,
                    )
                }),
            self.write_progress
                .map(|since| (since + limits.write_stall, CloseReason::WriteStalled)),
            self.ends
                .map(|ends| (ends, CloseReason::AuthenticationFailed)),
            tls.filter(|tls| tls.is_handshaking()).map(|_| {
                (
                    self.info.opened + limits.authentication,
                    CloseReason::HandshakeTimedOut,
                )
            }),
            tls.filter(|_| !waits_for_us)
                .and_then(TlsSession::partial_since)
                .map(|since| {
                    let since = since.max(self.resumed);
                    (since + limits.frame_stall, CloseReason::FrameStalled)
                }),
            (!self.info.authenticated).then(|| {
                (
                    self.info.opened + limits.authentication,
                    CloseReason::AuthenticationTimedOut,
                )
            }),
        ]
    }

    pub(super) fn check_deadlines(
        &self,
        thread: &ThreadState,
        now: Instant,
    ) -> Result<(), CloseReason> {
        match self
            .deadlines(thread)
            .into_iter()
            .flatten()
            .find(|(deadline, _)| *deadline <= now)
        {
            Some((_, reason)) => Err(reason),
            None => Ok(()),
        }
    }

    /// Arm the timer for the next deadline.
    pub(super) fn arm(&mut self, thread: &ThreadState, context: &mut Context<'_>, now: Instant) {
        let closing = self
            .deadlines(thread)
            .into_iter()
            .flatten()
            .map(|(deadline, _)| deadline)
            .min();
        let next = [closing, self.slots.deadline(), self.looks_again(now)]
            .into_iter()
            .flatten()
            .min();
        let Some(next) = next else { return };
        let set = self.armed.is_some_and(|armed| armed > now && armed <= next);
        if set {
            return;
        }
        self.armed = Some(next);
        self.timer.as_mut().reset(next.into());
        // The timer is polled only once for each new deadline, because the task's waker does not change.
        if self.timer.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
    }
}
