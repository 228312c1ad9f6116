//! What a replica must remember over a crash beside its log (`quorum-state` and `partition.metadata` in Kafka).

use pybroker_model::Uuid;

use crate::keys::ReplicaKey;

/// The durable state of a replica. The owner writes all of it at once: temporary file, fsync, rename, fsync of the
/// directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuorumState {
    /// The highest epoch that the replica has seen.
    pub epoch: i32,
    /// The leader of that epoch. A replica that knows it votes for nobody else in the epoch.
    pub leader: Option<i32>,
    /// Whom the replica voted for in that epoch.
    pub voted: Option<ReplicaKey>,
    /// The metadata topic's id, once its record is committed.
    pub topic_id: Option<Uuid>,
}
