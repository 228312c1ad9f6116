//! Replication: this broker copies partitions that other brokers lead. One thread or more for each leader; no Python in
//! the path of a record.
//!
//! A fetch offset is a claim: the leader counts everything below it for the high watermark. So the fetcher sends it
//! only after the flush of everything below (`log.flush.mode=commit`). Records of one response are flushed together; a
//! partition on a slow disk leaves the session until its flush is done, and the others continue.
//!
//! From the bottom up: `settings`, `report` (log lines) and `figures`; `following`, the state of one partition, and
//! `session`, the leader's fetch session (KIP-227), both pure; `requests`, the encoding; `staged`, copies of staged
//! ingests to replicas; `mailbox`, messages to a running thread; `leader`, that thread; `fetchers`, all of them.

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
