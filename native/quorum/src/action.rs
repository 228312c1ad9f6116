//! Events that go into the state machine, and actions that come out.

use crate::batch::{Batch, EpochEnd, Snapshot, SnapshotHeader};
use crate::keys::ReplicaKey;
use crate::message::{Request, Response};
use crate::state::QuorumState;
use crate::transition::Transition;

/// An input of a replica.
#[derive(Debug, Clone)]
pub enum Event<D> {
    /// Time has passed; see `Quorum::deadline`.
    Time,
    /// A request arrived. The response repeats `handle`, the owner's name for the connection that waits.
    Request {
        /// Repeated in [`Action::Respond`].
        handle: u64,
        /// The request.
        request: Request,
    },
    /// A response arrived.
    Response {
        /// The node that the request was sent to.
        peer: i32,
        /// The request's correlation.
        correlation: u64,
        /// The response.
        response: Response<D>,
    },
    /// The node's port refused the connection, or the connection broke and the port refuses a new one.
    Refused {
        /// The node.
        peer: i32,
    },
    /// A request got no response, for example because the connection broke.
    RequestFailed {
        /// The request's correlation.
        correlation: u64,
    },
    /// The flush with this ticket is done: everything appended, truncated or installed before its [`Action::Flush`] is
    /// on disk.
    Flushed {
        /// The ticket of the flush.
        ticket: u64,
    },
    /// This version of the quorum state, and all earlier ones, are on disk.
    StateWritten {
        /// The ticket of the write.
        ticket: u64,
    },
    /// A write or a flush failed: the replica halts, because it cannot know the content of the disk.
    StorageFailed,
    /// Answer all waiting fetches, because the owner has data to send with the responses.
    AnswerFetches,
    /// Append records, as the leader.
    Propose {
        /// The owner's name for the proposal.
        proposal: u64,
        /// Number of records.
        records: u32,
        /// The records.
        data: D,
    },
    /// Make an observer a voter (KIP-853).
    AddVoter {
        /// The owner's name for the proposal.
        proposal: u64,
        /// The observer.
        voter: ReplicaKey,
    },
    /// Make a voter an observer (KIP-853).
    RemoveVoter {
        /// The owner's name for the proposal.
        proposal: u64,
        /// The voter.
        voter: ReplicaKey,
    },
    /// Resign as the leader, because the node stops or another voter is to lead.
    Resign {
        /// The voter that should lead.
        successor: Option<i32>,
    },
    /// The owner has written a snapshot to disk and removed the log's batches before `start`.
    SnapshotWritten {
        /// The header that `Quorum::snapshot_header` returned.
        header: SnapshotHeader,
        /// The new start of the log: the end of this snapshot, or the end of an older snapshot that the owner keeps.
        start: EpochEnd,
    },
}

/// An output that the owner executes, in this order.
#[derive(Debug, Clone)]
pub enum Action<D> {
    /// Send a request.
    Send {
        /// The receiving node.
        peer: i32,
        /// Repeated in [`Event::Response`].
        correlation: u64,
        /// The request.
        request: Request,
    },
    /// Answer a request.
    Respond {
        /// The request's handle.
        handle: u64,
        /// The response.
        response: Response<D>,
    },
    /// Respond to a Fetch with as many batches of the log as fit.
    RespondWithBatches {
        /// The request's handle.
        handle: u64,
        /// The response without its batches.
        response: Response<D>,
        /// Offset of the first batch.
        from: i64,
        /// End of the log.
        to: i64,
    },
    /// Respond to a FetchSnapshot with the snapshot, or with `SNAPSHOT_NOT_FOUND` if it is gone.
    RespondWithSnapshot {
        /// The request's handle.
        handle: u64,
        /// The response without the snapshot.
        response: Response<D>,
        /// End of the requested snapshot.
        id: EpochEnd,
    },
    /// Append batches to the log.
    Append(Vec<Batch<D>>),
    /// Cut the log off at this offset.
    Truncate(i64),
    /// Replace the log and its snapshots by this snapshot.
    Install(Snapshot<D>),
    /// Flush the log's present content to disk, then report [`Event::Flushed`].
    Flush {
        /// Repeated in [`Event::Flushed`].
        ticket: u64,
    },
    /// Write the quorum state to disk, then report [`Event::StateWritten`].
    WriteState {
        /// Repeated in [`Event::StateWritten`].
        ticket: u64,
        /// The state.
        state: QuorumState,
    },
    /// All records below this offset are committed and may be applied.
    Commit(i64),
    /// The replica changed its role.
    Become(Transition),
    /// The outcome of a proposal or a voter change, as far as this replica knows it.
    Decide {
        /// The proposal's name.
        proposal: u64,
        /// The outcome.
        decision: Decision,
    },
}

/// The outcome of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The proposal is committed.
    Committed {
        /// The offset after its last record.
        end_offset: i64,
    },
    /// The proposal was not appended.
    Refused(Refusal),
    /// The leader was deposed or resigned before it knew the outcome (`NOT_CONTROLLER`); the proposal may still be
    /// committed.
    Unknown,
}

/// Why a proposal was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This replica does not lead (`NOT_CONTROLLER`).
    NotLeader,
    /// Retry: another voter change, or the first record of this leader's epoch, is not committed yet.
    NotReady,
    /// A voter has that id (`DUPLICATE_VOTER`).
    DuplicateVoter,
    /// The observer does not fetch, or has not caught up.
    NotCaughtUp,
    /// No voter has that id (`VOTER_NOT_FOUND`).
    VoterNotFound,
    /// The last voter cannot be removed.
    LastVoter,
}
