//! What opening a log is told beforehand, and what it tells afterwards.

use crate::clean_state::CleanState;

/// What is known about a log before its files are looked at.
#[derive(Clone, Debug, Default)]
pub struct OpenState {
    /// From the recovery-point checkpoint: everything below is on disk and was checked.
    pub recovery_point: Option<i64>,
    /// From the log-start checkpoint.
    pub log_start_offset: Option<i64>,
    /// From the cleaner's checkpoint: below, compaction has been.
    pub cleaned_to: Option<i64>,
    /// From the clean-shutdown marker.
    pub(crate) clean: Option<CleanState>,
}

/// What opening found and did, for the log and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether the clean-shutdown marker held, so that nothing was scanned.
    pub clean: bool,
    /// Bytes whose checksums were checked.
    pub scanned_bytes: u64,
    /// Bytes cut off the end.
    pub truncated_bytes: u64,
    /// Ranges (first, last) of offsets whose records are lost to damage.
    pub lost: Vec<(i64, i64)>,
    /// What else was out of order, in words.
    pub notes: Vec<String>,
}
