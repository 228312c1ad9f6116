//! Input of opening a log, and its result.

use crate::clean_state::CleanState;

/// State of a log that the broker knows before it reads the log's files.
#[derive(Clone, Debug, Default)]
pub struct OpenState {
    /// From the recovery-point checkpoint: everything below is on disk and was checked.
    pub recovery_point: Option<i64>,
    /// From the log-start checkpoint.
    pub log_start_offset: Option<i64>,
    /// From the cleaner's checkpoint: the first offset that is not compacted.
    pub cleaned_to: Option<i64>,
    /// From the clean-shutdown marker.
    pub(crate) clean: Option<CleanState>,
}

/// Result of opening a log, for the broker's log and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether the clean-shutdown marker matched, so that nothing was scanned.
    pub clean: bool,
    /// Bytes whose checksums were checked.
    pub scanned_bytes: u64,
    /// Bytes cut off the end.
    pub truncated_bytes: u64,
    /// Offset ranges (first, last) whose records are lost to damage.
    pub lost: Vec<(i64, i64)>,
    /// Other findings, in words.
    pub notes: Vec<String>,
}
