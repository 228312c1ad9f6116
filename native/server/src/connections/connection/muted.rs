//! Muted connections: the broker does not read from them during the throttle time, but still detects that the peer has
//! disconnected.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;

use super::Connection;
use crate::clients::close_reason::CloseReason;

/// Interval for checking whether a peer with unread bytes has disconnected; the system reports that only to a reader.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Connection {
    /// Return whether the deferred request at the head must wait until the mute ends.
    pub(super) fn begins_muted(&self) -> bool {
        self.info.quotas.muted_until().is_some() && self.slots.head_is_deferred()
    }

    /// Return when to check the connection without an event.
    pub(super) fn looks_again(&self, now: Instant) -> Option<Instant> {
        let until = self.info.quotas.muted_until()?;
        Some(until.min(now + LOOK_AGAIN))
    }

    /// Unmute the connection when its mute ends, and close it if the peer has disconnected.
    pub(super) fn look_whether_muted(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
    ) -> Result<(), CloseReason> {
        let quotas = self.shared.metadata.quotas();
        let draining = self.shared.draining.load(Ordering::Relaxed);
        if draining || !self.info.quotas.stays_muted(quotas, now) {
            self.info.quotas.unmute();
            self.resumed = now;
            return Ok(());
        }
        let mut space = [MaybeUninit::uninit(); 1];
        match self
            .socket
            .poll_peek(context, &mut ReadBuf::uninit(&mut space))
        {
            Poll::Ready(Ok(0)) => Err(CloseReason::PeerClosed),
            Poll::Ready(Err(error)) if error.kind() != ErrorKind::WouldBlock => {
                Err(CloseReason::of_io(error))
            }
            // The unread bytes are further requests, which are read later. A peer that reset the connection expects no
            // reply.
            _ => match self.socket.take_error() {
                Ok(Some(error)) | Err(error) => Err(CloseReason::of_io(error)),
                Ok(None) => Ok(()),
            },
        }
    }
}
