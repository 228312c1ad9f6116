//! The metadata log on disk: executes the appends, truncations, reads and snapshots of `pybroker-quorum`. Synchronous;
//! no clock, no threads, no sockets.
//!
//! ```text
//! {dir}/__cluster_metadata-0/00000000000000000000.log                    record batches, format 2
//!                            00000000000000000000-0000000000.checkpoint  a snapshot up to {offset}-{epoch}
//!                            ….checkpoint.part                           a snapshot that is being written or fetched
//!                            ….checkpoint.corrupt                        a damaged snapshot that recovery put aside
//!                            quorum-state                                epoch, leader, vote, topic id, as JSON
//!                            flushed-offset                              the log was on disk up to this offset
//! ```
//! Names and formats are Apache Kafka's (KIP-595, KIP-630, KIP-853), except `flushed-offset`. The topic id (KIP-516) is a
//! tagged field of the KRaftVersion record and a member of `quorum-state`. The base sequence of a batch repeats its epoch,
//! which format 2 leaves out of its checksum.
//!
//! | module | content |
//! |---|---|
//! | `files` | the trait of a directory that can be synced, and the real one |
//! | `control` | control records |
//! | `codec` | batches of the quorum to bytes and back |
//! | `names`, `state_file`, `flushed_file` | names of files, and the two small files |
//! | `snapshot` | snapshots: writing, receiving, reading |
//! | `segment` | one file of the log |
//! | `recovery` | checks at start: a torn tail is cut off, damage before it is an error |
//! | `log` | the log |
//! | `offline` | changes of the log of a stopped node |
//!
//! Durability: [`MetadataLog::append`] and [`MetadataLog::truncate`] write to the page cache;
//! [`MetadataLog::begin_flush`] returns a [`Flush`] that any thread may run, and [`MetadataLog::end_flush`] records its
//! completion. The log flushes a segment before it begins the next one.

mod codec;
mod control;
mod error;
mod files;
mod flushed_file;
mod log;
mod names;
pub mod offline;
mod recovery;
mod segment;
mod snapshot;
mod state_file;

pub use codec::{decode_batches, encode_records, endpoints_of, record_values};
pub use control::{EncodeContext, Endpoint};
pub use error::LogError;
pub use files::{Directory, FileHandle, Files};
pub use log::{Flush, LogOptions, MetadataLog};
pub use recovery::RecoveredState;
pub use snapshot::{SnapshotDownload, SnapshotReader, SnapshotWriter};
pub use state_file::StateWrite;

/// Name of the log's directory, as in Kafka: topic and partition.
pub const DIRECTORY: &str = "__cluster_metadata-0";
