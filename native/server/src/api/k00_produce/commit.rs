//! Appended records that wait to be committed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use pybroker_protocol::ErrorCode;
use pybroker_protocol::primitives::Writer;
use pybroker_replica::Commit;

use crate::error_codes::{Naming, of_partition};
use crate::metrics::Moments;

/// An appended request that waits for its commits.
pub(crate) struct PendingCommit {
    /// The whole reply frame.
    pub(super) reply: Vec<u8>,
    /// Uncommitted partitions, the last one first.
    pub(super) waits: Vec<Wait>,
    pub(super) naming: Naming,
    pub(super) deadline: Instant,
    pub(super) moments: Moments,
    /// Version of the request.
    pub(super) version: i16,
}

/// One partition whose append is not committed yet.
pub(super) struct Wait {
    pub(super) commit: Commit,
    /// Offset of the partition's error code in the reply.
    pub(super) error_position: usize,
}

impl PendingCommit {
    /// Return the whole reply frame once every commit has succeeded, failed or timed out.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<Vec<u8>> {
        while let Some(wait) = self.waits.last_mut() {
            let error = match Pin::new(&mut wait.commit).poll(context) {
                Poll::Ready(Ok(())) => ErrorCode::NONE,
                Poll::Ready(Err(error)) => of_partition(&error, self.naming),
                Poll::Pending if now >= self.deadline => ErrorCode::REQUEST_TIMED_OUT,
                Poll::Pending => return Poll::Pending,
            };
            if error != ErrorCode::NONE {
                Writer::new(&mut self.reply, false).patch_i16(wait.error_position, error.0);
            }
            self.waits.pop();
        }
        Poll::Ready(core::mem::take(&mut self.reply))
    }

    /// Return the memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.reply.capacity() + self.waits.capacity() * size_of::<Wait>()
    }
}
