//! OffsetCommit of members whose commits the coordinator has delegated to the data threads
//! (`leases/delegated_commits`). The control plane handles all other commits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::offset_commit::OffsetCommitRequest;
use pybroker_protocol::primitives::Writer;
use pybroker_replica::PartitionError;
use tokio::sync::oneshot;

use super::{Answer, Call};
use crate::authorizer::Operation;
use crate::leases::delegated_commits::{CommitLease, CommitOutcome, MemberCommit};
use crate::metrics::Moments;
use crate::net::outgoing::Outgoing;
use crate::net::reply::ReplyFrame;
use crate::shared::ThreadState;

/// Append the commits, and write the reply or keep it until the commits are on disk. Return `None` if the control plane
/// must answer.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &mut ThreadState,
    body: &[u8],
    outgoing: &mut Outgoing,
) -> Option<Answer<PendingOffsetCommit>> {
    let lease = call.connection.commit_leases.find(call.version, body)?;
    // The control plane refuses requests that cannot be decoded.
    let request = OffsetCommitRequest::decode(body, call.version).ok()?;
    let commits = lease.commits(&request, call.now_ms)?;
    if !may_commit(call, lease, &commits) {
        return None;
    }
    let map = call.shared.replicas.snapshot();
    let tip = lease.tip();
    let partition = map.partition(tip.topic_id, tip.partition)?;
    if thread.flushes.slow_dir(partition, call.received).is_some() {
        // Leave the request to the control plane, which may wait for a slow disk; this thread must not.
        return None;
    }
    let at = (call.began, call.now_ms);
    let committed = lease.append(partition, commits, at, thread.flush_group.held());
    let answer = match committed {
        CommitOutcome::Declined => return None,
        CommitOutcome::Committed => None,
        CommitOutcome::Pending(answer) => Some(answer),
    };
    let out = outgoing.tail(&mut thread.pool);
    let start = out.len();
    let frame = ReplyFrame::begin(out, call.reply);
    let body_at = out.len() - start;
    let mut error_places = request.encode_success(call.version, call.throttle_time_ms, out);
    frame.end(out);
    let Some(answer) = answer else {
        return Some(Answer::Written);
    };
    for place in &mut error_places {
        *place += body_at;
    }
    Some(Answer::Later(Box::new(PendingOffsetCommit {
        answer,
        reply: out.split_off(start),
        error_places,
        deadline: call.received + lease.timeout(),
        moments: Moments {
            waits: Some(Instant::now()),
            ..call.moments()
        },
        version: call.version,
    })))
}

/// Return whether the client may still commit; if not, the control plane refuses the request.
fn may_commit(call: &Call<'_>, lease: &CommitLease, commits: &[MemberCommit]) -> bool {
    let access = call.access();
    access.may_read_for(lease.group())
        && (!access.is_restricted()
            || commits
                .iter()
                .all(|commit| access.permits(Operation::READ, &commit.topic)))
}

/// Appended commits that wait for the disk or for replicas.
pub(crate) struct PendingOffsetCommit {
    answer: oneshot::Receiver<Result<(), PartitionError>>,
    /// The whole reply frame.
    reply: Vec<u8>,
    /// Byte positions of the partitions' error codes in `reply`.
    error_places: Vec<usize>,
    pub(crate) deadline: Instant,
    pub(crate) moments: Moments,
    pub(crate) version: i16,
}

impl PendingOffsetCommit {
    /// Return the whole reply frame once the commits are on disk, have failed or timed out.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, now: Instant) -> Poll<Vec<u8>> {
        let error = match Pin::new(&mut self.answer).poll(context) {
            Poll::Ready(Ok(Ok(()))) => ErrorCode::NONE,
            Poll::Ready(Ok(Err(PartitionError::NotEnoughReplicasAfterAppend { .. }))) => {
                ErrorCode::COORDINATOR_NOT_AVAILABLE
            }
            Poll::Ready(_) => ErrorCode::NOT_COORDINATOR,
            Poll::Pending if now >= self.deadline => ErrorCode::COORDINATOR_NOT_AVAILABLE,
            Poll::Pending => return Poll::Pending,
        };
        if error != ErrorCode::NONE {
            let mut writer = Writer::new(&mut self.reply, false);
            for &place in &self.error_places {
                writer.patch_i16(place, error.0);
            }
        }
        Poll::Ready(core::mem::take(&mut self.reply))
    }

    /// Return the memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.reply.capacity() + self.error_places.capacity() * size_of::<usize>()
    }
}
