//! Requests and responses of the quorum, with the fields that the state machine reads. Node ids represent connections,
//! which belong to the owner of the state machine.

use pybroker_model::Uuid;

use crate::batch::{Batch, EpochEnd, Snapshot};
use crate::keys::ReplicaKey;

/// A request to another replica. It has the ids of the cluster and of the metadata topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sender's cluster.
    pub cluster_id: Uuid,
    /// The topic id in the sender's log, or [`Uuid::METADATA`] if the log has none (KIP-516).
    pub topic_id: Uuid,
    /// The sender's epoch; in a Vote the candidate's.
    pub epoch: i32,
    /// The sender.
    pub sender: ReplicaKey,
    /// The kind of the request, with its fields.
    pub ask: Ask,
}

/// The kind of a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A candidate requests a vote (KIP-595) or a pre-vote (KIP-996).
    Vote {
        /// The requested voter, with its directory id; unknown in version 0.
        voter: Option<ReplicaKey>,
        /// The end of the candidate's log.
        last: EpochEnd,
        /// Whether it is a pre-vote, whose answer promises nothing.
        pre_vote: bool,
    },
    /// The leader announces its epoch.
    BeginQuorumEpoch,
    /// The leader resigns.
    EndQuorumEpoch {
        /// Voters in the order in which they should start elections.
        preferred_successors: Vec<i32>,
    },
    /// A voter or an observer requests the records from offset `from`. Its own log is on disk up to that offset.
    Fetch {
        /// The end of the sender's log.
        from: EpochEnd,
        /// The sender's high watermark. A leader with a higher one answers without waiting for records.
        high_watermark: i64,
        /// How long the leader may hold the fetch while it has no new records.
        wait_ms: u64,
    },
    /// A lagging replica requests a snapshot.
    FetchSnapshot {
        /// The snapshot's id from the leader's response.
        id: EpochEnd,
    },
}

/// The error of a request, named as in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// No error.
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

/// The response to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<D> {
    /// The error, if any.
    pub error: Error,
    /// The epoch of the responding replica.
    pub epoch: i32,
    /// The leader of that epoch, if the replica knows it and the leader has not resigned.
    pub leader: Option<i32>,
    /// The answer.
    pub answer: Answer<D>,
}

/// The body of a [`Response`] without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<D> {
    /// The body of a response with an error, and of responses without fields.
    Empty,
    /// Response to a Vote.
    Vote {
        /// Whether the candidate has the vote.
        granted: bool,
    },
    /// Response to a Fetch.
    Fetch {
        /// The leader's high watermark.
        high_watermark: i64,
        /// The fetched data, or the reason why there is none.
        fetched: FetchResult<D>,
    },
    /// Response to FetchSnapshot: the owner has stored one part of the snapshot; more parts follow.
    SnapshotPart,
    /// Response to FetchSnapshot: the owner has the complete snapshot.
    Snapshot(Snapshot<D>),
}

/// The result of a Fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchResult<D> {
    /// Batches from the fetch offset on.
    Batches(Vec<Batch<D>>),
    /// The two logs agree at most up to this end.
    Diverging(EpochEnd),
    /// The leader's log begins after the fetch offset: the replica must fetch this snapshot first.
    Snapshot(EpochEnd),
}
