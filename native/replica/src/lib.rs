//! The partitions hosted here: who leads them, how far they may be read, who waits for what.
//!
//! Synchronous: no runtime, no socket, no clock (`now_ms` comes in; the background threads get a clock from whoever
//! starts them). Identity is compared here for data and in `pybroker/replicas` for orders, nowhere else.

mod commit;
mod error;
mod high_watermark;
mod partition;
mod replicas;
mod requests;
mod role;
mod topic_map;
mod waiting;

pub use commit::Commit;
pub use error::PartitionError;
pub use high_watermark::ReplicaEnds;
pub use partition::Partition;
pub use replicas::Replicas;
pub use requests::{
    AppendInfo, EpochEnd, FetchRead, Isolation, ListedOffset, OffsetSpec, PartitionRead,
};
pub use role::{Leader, Role, check_leader_epoch};
pub use topic_map::{HostedTopic, PARTITION_INDEX_MAX, Placed, TopicMap};
pub use waiting::{Registration, Watched};

/// Replaced by the type of `storage`, which has the same three fields.
#[derive(Debug)]
pub struct LogSlice {
    /// The segment.
    pub file: Arc<std::fs::File>,
    /// Where the records begin.
    pub position: u64,
    /// Bytes.
    pub len: usize,
}

use std::sync::Arc;
