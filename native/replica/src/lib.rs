//! The partitions hosted on this broker: roles, progress and waiters.
//!
//! Synchronous: no runtime, no socket. Callers pass the time as `now_ms`; background threads get a [`Clock`] at the
//! start. Only two places compare topic ids: this crate for data, and `pybroker/broker/replicas` for orders.
//!
//! From the bottom up: settings and request types (`config`, `topic_config`, the types of `orders`, `requests`,
//! `error`); a partition's `role` and `progress`, and the `partition` itself; the `log_dirs` and their content;
//! `replicas`, the table of all partitions; and the operations on them: `orders`, `moves`, `ingest`, `background`,
//! `describe`, `shutdown`.

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests wait with a limit")
)]

mod background;
mod config;
mod describe;
mod error;
mod failures;
mod ingest;
mod legacies;
mod log_dirs;
mod move_table;
mod moves;
mod open_ingests;
mod orders;
mod partition;
mod progress;
mod replicas;
mod requests;
mod role;
mod shutdown;
mod throttle;
mod topic_config;
mod topic_map;

#[cfg(test)]
mod tests;

pub use background::{Background, CleanerSettings, Intervals};
pub use config::{ReplicasConfig, Report};
pub use describe::{LogDirDescription, LogDirRefusals, RoleNow};
pub use error::PartitionError;
pub use failures::OnOffline;
pub use ingest::{CommitEntry, IngestState, Preparation};
pub use log_dirs::LocalPartition;
pub use moves::{FutureReplica, MoveError};
pub use open_ingests::{
    IngestError, IngestFigures, IngestLimits, IngestName, Ingests, NewIngest, StagedChunk,
    StagedCopies,
};
pub use orders::{PartitionOrder, StopOrder};
pub use partition::{FetchFrom, Partition};
pub use progress::{
    Commit, Follower, IsrProposal, Member, Proposal, Proposals, Registration, WatchedOffset,
};
pub use pybroker_storage::{Clock, HeldFlushes};
pub use replicas::Replicas;
pub use requests::{
    AppendInfo, EpochEnd, FetchRead, Isolation, ListedOffset, OffsetSpec, PartitionRead,
};
pub use role::{Leader, Role, check_leader_epoch};
pub use throttle::{Throttle, Throttles};
pub use topic_config::{BadSetting, BrokerLogSettings, ThrottledReplicas, TopicConfig};
pub use topic_map::{HostedTopic, PARTITION_INDEX_MAX, TopicMap, TopicMapEntry};
