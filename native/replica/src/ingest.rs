//! Lifecycle of staged ingests on this broker: open, append, then commit or drop.
//!
//! A commit first closes the ingest to appends, and the listed records are staged and synced. Then the control plane
//! decides the commit. Afterwards the records become part of the logs exactly once.

mod commit;
mod copy;
mod life;
mod listing;
mod stage;
#[cfg(test)]
mod tests;

pub use commit::{CommitEntry, Preparation};
pub use listing::IngestState;
