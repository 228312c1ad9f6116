//! The life of staged ingests on this broker: they begin, take records, become part of the logs or are dropped.
//!
//! What is listed by a commit is what is staged and on disk before the control plane decides; then it becomes part of
//! the logs, once only. A commit closes the ingest to appends first.

mod commit;
mod copy;
mod life;
mod listing;
mod stage;
#[cfg(test)]
mod tests;

pub use commit::{Listed, Preparation};
pub use listing::IngestState;
