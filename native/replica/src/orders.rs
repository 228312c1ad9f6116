//! Orders of the control plane (LeaderAndIsr, StopReplica). The control plane has already checked their controller
//! epoch and broker epoch.

use std::sync::Arc;

use pybroker_model::TopicIdPartition;

use crate::TopicConfig;

mod adopt;
mod apply;
mod judge;
mod restore;
mod stop;

/// Order to host a partition with this leadership.
#[derive(Debug, Clone)]
pub struct PartitionOrder {
    /// The partition.
    pub tip: TopicIdPartition,
    /// The topic's name.
    pub topic: Arc<str>,
    /// Broker id of the leader; negative if there is none.
    pub leader: i32,
    /// Epoch of that leadership.
    pub leader_epoch: i32,
    /// In-sync replicas.
    pub isr: Arc<[i32]>,
    /// Version of the partition's state at the controller.
    pub version: i32,
    /// All replicas.
    pub replicas: Arc<[i32]>,
    /// Whether the controller creates the partition with this order. If false and a log directory is offline, a missing
    /// partition directory may be on the offline disk, so it is not created elsewhere.
    pub is_new: bool,
    /// Start offset of an empty log. Above 0, the topic continues the offsets of an earlier incarnation (truncation).
    pub start_offset: i64,
    /// The topic's settings.
    pub config: Arc<TopicConfig>,
}

/// Order to stop hosting a partition.
#[derive(Debug, Clone, Copy)]
pub struct StopOrder {
    /// The partition.
    pub tip: TopicIdPartition,
    /// Leader epoch of the order. -1 means none, -2 that the topic is being deleted (KIP-516).
    pub leader_epoch: i32,
    /// Whether to stage the partition's directory for removal.
    pub delete: bool,
}
