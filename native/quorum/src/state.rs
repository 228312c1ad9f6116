//! The state that a replica must keep across a crash besides its log (`quorum-state` and `partition.metadata` in
//! Kafka).

use pybroker_model::Uuid;

use crate::keys::ReplicaKey;

/// The durable state of a replica. The owner replaces the file as a whole: temporary file, fsync, rename, fsync of the
/// directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuorumState {
    /// The highest epoch that the replica has seen.
    pub epoch: i32,
    /// The leader of that epoch. A replica that knows the leader grants no vote in the epoch.
    pub leader: Option<i32>,
    /// The replica's vote in that epoch.
    pub voted: Option<ReplicaKey>,
    /// The metadata topic's id, once its record is committed.
    pub topic_id: Option<Uuid>,
}
