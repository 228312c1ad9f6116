//! Lifecycle of staged ingests on this broker: open, append, commit or drop.
//!
//! Before the control plane decides a commit, the listed records are staged and synced; afterwards they become part of
//! the logs exactly once. A commit first closes the ingest to appends.

mod commit;
mod copy;
mod life;
mod listing;
mod stage;
#[cfg(test)]
mod tests;

pub use commit::{CommitEntry, Preparation};
pub use listing::IngestState;
