//! The content of the metadata log: batches of data, or of the quorum's control records.

use pybroker_model::Uuid;

use crate::keys::{ReplicaKey, VoterSet};

/// A point in a log: an offset, and the epoch of the record before it. `(0, 0)` is the start of the log. Points are
/// ordered as Vote compares logs: by epoch, then by offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EpochEnd {
    /// Leader epoch of the last record below `offset`.
    pub epoch: i32,
    /// Offset after the last record.
    pub offset: i64,
}

/// Consecutive records of one leader epoch. Batches are appended, copied and cut off as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch<D> {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Number of records, at least one.
    pub records: u32,
    /// Epoch of the leader that wrote the batch.
    pub epoch: i32,
    /// The records.
    pub body: Body<D>,
    /// The batch in the encoding of the leader that wrote it, so that all replicas store the same bytes. `None` for a
    /// batch that this replica appends as the leader.
    pub encoded: Option<D>,
}

impl<D> Batch<D> {
    /// Offset after the last record.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        self.base_offset + i64::from(self.records)
    }
}

/// The records of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body<D> {
    /// The first record of an epoch (Kafka's LeaderChangeMessage).
    LeaderChange(ReplicaKey),
    /// The voter set, which takes effect when the record is appended (Kafka's VotersRecord).
    Voters(VoterSet),
    /// The unique id of the metadata topic (KIP-516).
    TopicId(Uuid),
    /// Metadata deltas; the quorum does not decode them.
    Data(D),
}

/// The quorum's part of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// The end of the log that the snapshot replaces.
    pub id: EpochEnd,
    /// The voters as of that end.
    pub voters: VoterSet,
    /// Offset of the topic id's record, and the id, if the snapshot replaces that record.
    pub topic_id: Option<(i64, Uuid)>,
}

impl SnapshotHeader {
    /// Return the snapshot in a newly formatted directory, which starts an empty log. `voters` are the first voters of
    /// the cluster; the set is empty on a node that joins later.
    #[must_use]
    pub fn bootstrap(voters: VoterSet) -> Self {
        Self {
            id: EpochEnd::default(),
            voters,
            topic_id: None,
        }
    }
}

/// A snapshot that is sent to a lagging replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot<D> {
    /// The quorum's part of the snapshot.
    pub header: SnapshotHeader,
    /// The image's records.
    pub content: D,
}
