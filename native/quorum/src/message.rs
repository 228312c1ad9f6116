//! Requests and responses of the quorum, as far as it looks into them. Node ids stand for connections, which the owner
//! of the state machine has.

use pybroker_model::Uuid;

use crate::batch::{Batch, EpochEnd, Snapshot};
use crate::keys::ReplicaKey;

/// What a replica asks of another. Each names the cluster and the metadata topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sender's cluster.
    pub cluster_id: Uuid,
    /// The topic id that the sender's log names, or [`Uuid::METADATA`] if it names none (KIP-516).
    pub topic_id: Uuid,
    /// The sender's epoch, in a Vote the candidate's.
    pub epoch: i32,
    /// The sender.
    pub sender: ReplicaKey,
    /// The question.
    pub ask: Ask,
}

/// The question of a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A candidate asks for a vote (KIP-595), or would ask for it (KIP-996).
    Vote {
        /// The voter, which a node with another directory id is not; unknown in version 0.
        voter: Option<ReplicaKey>,
        /// The end of the candidate's log.
        last: EpochEnd,
        /// Whether the answer promises nothing.
        pre_vote: bool,
    },
    /// The leader announces its epoch.
    BeginQuorumEpoch,
    /// The leader resigns.
    EndQuorumEpoch {
        /// Voters in the order in which they should start elections.
        preferred_successors: Vec<i32>,
    },
    /// A voter or an observer asks for what follows upon its log, which is on its disk up to there.
    Fetch {
        /// The end of the sender's log.
        from: EpochEnd,
        /// The sender's high watermark: the leader answers at once when it has a higher one.
        high_watermark: i64,
    },
    /// A replica that lags asks for a snapshot.
    FetchSnapshot {
        /// As the leader named it.
        id: EpochEnd,
    },
}

/// What is wrong with a request, by Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Nothing.
    None,
    /// `INCONSISTENT_CLUSTER_ID`
    InconsistentClusterId,
    /// `UNKNOWN_TOPIC_ID`
    UnknownTopicId,
    /// `INVALID_VOTER_KEY`
    InvalidVoterKey,
    /// `FENCED_LEADER_EPOCH`: the sender's epoch is over.
    FencedLeaderEpoch,
    /// `UNKNOWN_LEADER_EPOCH`: the sender's epoch is not known here.
    UnknownLeaderEpoch,
    /// `NOT_LEADER_OR_FOLLOWER`
    NotLeader,
    /// `SNAPSHOT_NOT_FOUND`
    SnapshotNotFound,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<D> {
    /// What is wrong.
    pub error: Error,
    /// The epoch of the replica that answers.
    pub epoch: i32,
    /// The leader of that epoch, if it knows it and the leader has not resigned.
    pub leader: Option<i32>,
    /// The answer.
    pub answer: Answer<D>,
}

/// The answer of a [`Response`], if nothing is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<D> {
    /// Of an error, and of what only needs to arrive.
    Empty,
    /// Of a Vote.
    Vote {
        /// Whether the candidate has the vote.
        granted: bool,
    },
    /// Of a Fetch.
    Fetch {
        /// The leader's high watermark.
        high_watermark: i64,
        /// What follows.
        fetched: Fetched<D>,
    },
    /// Of a FetchSnapshot: a part of the snapshot, which the owner keeps; more follows.
    SnapshotPart,
    /// Of a FetchSnapshot: the snapshot, complete.
    Snapshot(Snapshot<D>),
}

/// What a Fetch brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched<D> {
    /// Batches from the fetch offset on.
    Batches(Vec<Batch<D>>),
    /// The leader's log agrees at most up to this end.
    Diverging(EpochEnd),
    /// The leader's log begins later: this snapshot comes first.
    Snapshot(EpochEnd),
}
