//! A connection that is muted: nothing is read of it, for as long as its client was told to wait. That its peer has gone
//! is noticed all the same.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;

use super::Connection;
use crate::close::CloseReason;

/// How often it is looked whether a peer has gone that has sent more before: the system tells nobody who does not read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Connection {
    /// A request that waits for its turn waits longer.
    pub(super) fn begins_muted(&self) -> bool {
        self.info.quotas.muted_until().is_some() && self.slots.head_is_deferred()
    }

    /// When the connection is to be looked at although nothing happens.
    pub(super) fn looks_again(&self, now: Instant) -> Option<Instant> {
        let until = self.info.quotas.muted_until()?;
        Some(until.min(now + LOOK_AGAIN))
    }

    /// Ends the time for which it is muted when that is over, and the connection if the peer has ended it.
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
            // Requests that come early are read later; whoever has reset the connection wants no answer.
            _ => match self.socket.take_error() {
                Ok(Some(error)) | Err(error) => Err(CloseReason::of_io(error)),
                Ok(None) => Ok(()),
            },
        }
    }
}
