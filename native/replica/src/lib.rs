//! The partitions hosted here: who leads them, how far they may be read, who waits for what.
//!
//! Synchronous: no runtime, no socket, no clock (`now_ms` comes in; the background threads get a clock from whoever
//! starts them). Identity is compared here for data and in `pybroker/replicas` for orders, nowhere else.

mod error;
mod high_watermark;
mod role;
mod topic_map;
mod waiting;

pub use error::PartitionError;
pub use high_watermark::ReplicaEnds;
pub use role::{Leader, Role, check_leader_epoch};
pub use topic_map::{HostedTopic, PARTITION_INDEX_MAX, Placed, TopicMap};
pub use waiting::{Registration, Watched};
