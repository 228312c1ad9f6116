//! Compaction.
