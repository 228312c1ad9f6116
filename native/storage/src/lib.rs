//! One partition's log on one disk, and the log directory around it. Synchronous: no async, no sockets, no clock (time
//! is an argument, `now_ms`).
//!
//! ```text
//! {log.dir}/.lock  meta.properties  .kafka_cleanshutdown
//!           journal.0  journal.1    while running, and after a crash
//!           recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint
//!           {topic}-{partition}/partition.metadata  leader-epoch-checkpoint
//!                               00000000000000000000.log .index .timeindex .txnindex .snapshot
//!           deleting/{topic id in hex}_{partition}/…
//!           ingest/{topic id in hex}/…    staged, not in any log yet: `staged.rs`
//! ```
//! From the bottom up: files (`file_names`, `files`, `direct`, `handles`, `health`) and `waker_batch`; formats
//! (`checkpoint`, `index`, `txn_index`, `leader_epochs`, `partition_metadata`, `clean_state`, `scan`); structures
//! (`segment`, `producer_state`, `staged`, `journal`); then `recovery`, `log`, `flusher`, `log_dir`, `ingest`.
//!
//! Names and formats are Apache Kafka's. Promises and assumptions: `log.rs` (visibility and crash safety), `files.rs`
//! (assumptions about disks), `recovery.rs` (handling of files found at start).

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests wait with a limit")
)]

mod checkpoint;
mod clean_state;
mod clock;
mod config;
mod direct;
mod distribution;
mod error;
mod file_names;
mod files;
mod flusher;
mod handles;
mod health;
mod index;
mod ingest;
mod journal;
mod leader_epochs;
mod log;
mod log_dir;
mod partition_metadata;
mod producer_state;
mod recovery;
mod scan;
mod segment;
mod staged;
#[cfg(test)]
mod testing;
mod txn_index;
mod waker_batch;

pub use clock::Clock;
pub use config::{CleanupPolicy, FlushMode, LogConfig};
pub use distribution::{Counts, Distribution};
pub use error::{AppendError, ReadError, StorageError};
pub use flusher::{Flusher, HeldFlushes, JournalFigures, SYNCFS_LOGS};
pub use handles::{SegmentFile, open_files_max};
pub use health::OnFailure;
pub use ingest::{Listing, StagedTotals};
pub use leader_epochs::EpochEntry;
pub use log::{
    AttachNotice, AttachResult, Cleanable, CompactionResult, Log, LogAppendInfo, LogSlice, OnFlush,
    RetentionResult, TimestampAndOffset,
};
pub use log_dir::{
    Layout, LocalPartition, LogCopy, LogDir, LogDirOptions, MoveState, NewPartition, StagedDeletion,
};
pub use producer_state::{ActiveProducer, AppendOrigin, ProducerCount, ProducerLegacy};
pub use recovery::{OpenState, RecoveryReport};
pub use staged::{PlannedAttempt, StagedPartition};
pub use txn_index::AbortedTransaction;
pub use waker_batch::WakerBatch;
