//! A Produce request that is not answered yet.

use std::task::{Context, Poll};
use std::time::Instant;

use super::append::ProduceResult;
use super::commit::PendingCommit;
use super::hand_over::PendingAppend;
use super::verify::PendingVerification;
use crate::clients::close_reason::CloseReason;
use crate::metrics::Moments;
use crate::shared::ThreadState;

/// The step that a pending Produce waits for.
#[expect(
    clippy::large_enum_variant,
    reason = "it is boxed as a whole, once for each request that waits"
)]
pub(crate) enum PendingProduce {
    /// The transaction coordinator verifies the partitions.
    Verifying(PendingVerification),
    /// Another thread appends, because a log or its disk is slow or the records decompress to too much data.
    Appending(PendingAppend),
    /// The records are appended, but not all committed.
    Committing(PendingCommit),
}

impl PendingProduce {
    /// Return the whole reply frame when it is ready; the frame is empty with acks=0.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        thread: &mut ThreadState,
    ) -> Poll<Result<Vec<u8>, CloseReason>> {
        let mut appended = None;
        if let PendingProduce::Verifying(pending) = self {
            match pending.poll(context, &mut thread.expansion) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(elsewhere))) => *self = PendingProduce::Appending(elsewhere),
                Poll::Ready(Some(Ok(done))) => appended = Some(Poll::Ready(Some(done))),
                Poll::Ready(None) => appended = Some(Poll::Ready(None)),
            }
        }
        if let PendingProduce::Appending(pending) = self {
            appended = Some(pending.poll(context));
        }
        if let Some(appended) = appended {
            let (done, reply, mut tally) = match appended {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Err(CloseReason::Draining)),
                Poll::Ready(Some(appended)) => appended,
            };
            thread.note(&mut tally);
            match done? {
                ProduceResult::Written => return Poll::Ready(Ok(reply)),
                ProduceResult::Silent => return Poll::Ready(Ok(Vec::new())),
                ProduceResult::Waits(pending) => *self = PendingProduce::Committing(pending),
            }
        }
        match self {
            PendingProduce::Committing(pending) => pending.poll(context, now).map(Ok),
            PendingProduce::Verifying(_) | PendingProduce::Appending(_) => Poll::Pending,
        }
    }

    /// Return whether later Produce requests of the connection must wait, because this one is not appended yet.
    pub(crate) fn is_unappended(&self) -> bool {
        matches!(
            self,
            PendingProduce::Verifying(_) | PendingProduce::Appending(_)
        )
    }

    /// Return the time by which the request must be answered. Appends on a slow disk and coordinator look-ups have no
    /// deadline here.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            PendingProduce::Verifying(_) | PendingProduce::Appending(_) => None,
            PendingProduce::Committing(pending) => Some(pending.deadline),
        }
    }

    /// Return the timestamps of the request.
    pub(crate) fn moments(&self) -> Moments {
        match self {
            PendingProduce::Verifying(pending) => pending.moments,
            PendingProduce::Appending(pending) => pending.moments,
            PendingProduce::Committing(pending) => pending.moments,
        }
    }

    /// Return the version of the request.
    pub(crate) fn version(&self) -> i16 {
        match self {
            PendingProduce::Verifying(pending) => pending.version,
            PendingProduce::Appending(pending) => pending.version,
            PendingProduce::Committing(pending) => pending.version,
        }
    }

    /// Return the memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            PendingProduce::Verifying(pending) => pending.bytes,
            PendingProduce::Appending(pending) => pending.bytes,
            PendingProduce::Committing(pending) => pending.bytes(),
        }
    }
}
