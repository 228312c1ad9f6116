//! Replication: this broker copies partitions that other brokers lead. Each leader has one thread or more. No Python
//! code processes records.
//!
//! A fetch offset is a claim: the leader assumes that the follower has all records below it, and may raise the high
//! watermark. So the fetcher sends an offset only after all records below it are flushed (`log.flush.mode=commit`).
//! Records of one response are flushed together; a partition on a slow disk leaves the session until its flush is done,
//! and the others continue.
//!
//! From the bottom up: `settings`, `report` (log lines) and `figures`; `following`, the state of one partition, and
//! `session`, the leader's fetch session (KIP-227), both without I/O; `requests`, the encoding; `staged`, copies of
//! staged ingests to replicas; `mailbox`, messages to a running thread; `leader`, that thread; `fetchers`, all of them.

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
