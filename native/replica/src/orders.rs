//! What the control plane orders (LeaderAndIsr, StopReplica), already checked for controller and broker epoch.

use std::sync::Arc;

use pybroker_model::TopicIdPartition;

use crate::TopicConfig;

mod adopt;
mod apply;
mod judge;
mod restore;
mod stop;

/// Host a partition, with this leadership.
#[derive(Debug, Clone)]
pub struct PartitionOrder {
    /// Which.
    pub tip: TopicIdPartition,
    /// The topic's name.
    pub topic: Arc<str>,
    /// Broker id of the leader, negative: none.
    pub leader: i32,
    /// Epoch of that leadership.
    pub leader_epoch: i32,
    /// In-sync replicas.
    pub isr: Arc<[i32]>,
    /// Version of the partition's state with the controller.
    pub version: i32,
    /// All replicas.
    pub replicas: Arc<[i32]>,
    /// The controller creates it now. Otherwise a directory that is missing while a log directory is offline is
    /// taken to be there, and not made anew elsewhere.
    pub is_new: bool,
    /// Where an empty log begins: above 0 the topic continues the offsets of an earlier incarnation (truncation).
    pub start_offset: i64,
    /// The topic's settings.
    pub config: Arc<TopicConfig>,
}

/// Host a partition no more.
#[derive(Debug, Clone, Copy)]
pub struct StopOrder {
    /// Which.
    pub tip: TopicIdPartition,
    /// Epoch of the order: -1 none, -2 the topic is being deleted (KIP-516).
    pub leader_epoch: i32,
    /// Stage its directory for removal.
    pub delete: bool,
}
