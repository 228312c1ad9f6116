//! The partitions hosted here: who leads them, how far they may be read, who waits for what.
//!
//! Synchronous: no runtime, no socket, no clock (`now_ms` comes in; the background threads get a clock from whoever
//! starts them). Identity is compared here for data and in `pybroker/replicas` for orders, nowhere else.

mod adopt;
mod apply;
mod background;
mod cleaner;
mod commit;
mod error;
mod failures;
mod found;
mod high_watermark;
mod ingest;
mod legacies;
mod log_dirs;
mod maintenance;
mod moves;
mod orders;
mod partition;
mod placement;
mod progress;
mod replicas;
mod requests;
mod restore;
mod role;
mod stop;
mod topic_config;
mod topic_map;
mod waiting;

#[cfg(test)]
mod tests;

pub use background::{Background, Intervals};
pub use cleaner::CleanerSettings;
pub use commit::Commit;
pub use error::PartitionError;
pub use high_watermark::ReplicaEnds;
pub use ingest::{
    IngestError, IngestFigures, IngestLimits, IngestName, IngestState, Ingests, Listed, NewIngest,
};
pub use moves::{FutureReplica, MoveError};
pub use orders::{PartitionOrder, StopOrder};
pub use partition::Partition;
pub use replicas::{Clock, LocalPartition, LogDirDescription, Replicas, ReplicasConfig, Report};
pub use requests::{
    AppendInfo, EpochEnd, FetchRead, Isolation, ListedOffset, OffsetSpec, PartitionRead,
};
pub use role::{Leader, Role, check_leader_epoch};
pub use topic_config::{BadSetting, BrokerLogSettings, TopicConfig};
pub use topic_map::{HostedTopic, PARTITION_INDEX_MAX, Placed, TopicMap};
pub use waiting::{Registration, Watched};
