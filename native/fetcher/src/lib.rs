//! Following: this broker copies the partitions that others lead. A thread for each leader, no Python on the way of a
//! record.
//!
//! The fetch offset is a claim: the leader counts what is below it for the high watermark. So it is sent only after the
//! flush of what is below (`log.flush.mode=commit`). What is appended from one answer is flushed together; a partition
//! whose disk is slow leaves the session until it has its flush, and the others go on.
//!
//! From the bottom up: `settings`, `report` (lines for the log) and `figures`; `following`, what one partition has asked
//! and what its answer means, and `session`, what the leader remembers of the questions (KIP-227), both pure;
//! `requests`, the bytes; `staged`, what leaders here bring to replicas of staged ingests; `mailbox`, the way to a running thread; `leader`, that thread; `fetchers`, all of them.

mod fetchers;
mod figures;
mod following;
mod leader;
mod mailbox;
mod names;
mod report;
mod requests;
mod session;
mod settings;
mod staged;

pub use fetchers::{Assignment, Broker, Fetchers};
pub use figures::LeaderFigures;
pub use report::{Level, Report};
pub use settings::FetcherSettings;
pub use staged::StagedSender;
