//! Request and result types of partition operations.

use pybroker_storage::{AttachNotice, LogSlice};

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset; includes the list of aborted transactions.
    ReadCommitted,
    /// Up to the log end: followers and the control plane's own reads.
    LogEnd,
}

/// One partition of a Fetch request.
#[derive(Debug, Clone, Copy)]
pub struct FetchRead {
    /// Fetch offset.
    pub offset: i64,
    /// Largest number of bytes.
    pub max_bytes: usize,
    /// Isolation level.
    pub isolation: Isolation,
    /// Leader epoch known to the client; -1: none.
    pub current_leader_epoch: i32,
    /// Epoch of the client's last record (v12); -1: none.
    pub last_fetched_epoch: i32,
    /// Return one whole batch even if it exceeds `max_bytes`.
    pub at_least_one: bool,
    /// Read also from a follower (KIP-392), up to the high watermark that it knows.
    pub any_replica: bool,
}

/// Result of a read.
#[derive(Debug)]
pub struct PartitionRead {
    /// The records; length 0 at the end of the readable range.
    pub records: LogSlice,
    /// End of the readable range at this isolation level.
    pub bound: i64,
    /// High watermark of the response.
    pub high_watermark: i64,
    /// Last stable offset of the response.
    pub last_stable_offset: i64,
    /// Log start offset of the response.
    pub log_start_offset: i64,
    /// Aborted transactions in the range (`ReadCommitted` only): (producer id, first offset).
    pub aborted: Option<Vec<(i64, i64)>>,
    /// The client's log diverges: largest common (epoch, end offset); no records then (KIP-595).
    pub diverging: Option<EpochEnd>,
    /// For a replica that has the ingest staged: it attaches the ingest itself and gets no records.
    pub attach: Option<AttachNotice>,
}

/// End offset of a leader epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch not above the requested one; -1: not known.
    pub leader_epoch: i32,
    /// Offset after its last record; -1: not known.
    pub end_offset: i64,
}

/// The offset that ListOffsets requests. The variants name the negative timestamps of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// -1: the end at the request's isolation level.
    Latest,
    /// -2, and -4 (local log, KIP-405): the log start.
    Earliest,
    /// -3: offset of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// Offset of the first record with at least this timestamp.
    Timestamp(i64),
}

/// A result of ListOffsets; all fields are -1 if nothing matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset.
    pub offset: i64,
    /// Timestamp of its record; -1 for `Latest` and `Earliest`.
    pub timestamp: i64,
    /// Leader epoch of the offset, -1 unknown.
    pub leader_epoch: i32,
}

impl ListedOffset {
    /// Nothing matches.
    pub const NONE: Self = Self {
        offset: -1,
        timestamp: -1,
        leader_epoch: -1,
    };
}

/// Result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendInfo {
    /// Offset of the first record; for a duplicate, that of the original.
    pub base_offset: i64,
    /// Offset of the last record, to wait on for the commit.
    pub last_offset: i64,
    /// LogAppendTime in milliseconds; -1 if the topic does not use it.
    pub log_append_time: i64,
    /// Log start offset.
    pub log_start_offset: i64,
    /// `Progress::step_downs` at the append: the commit must be of the same leadership.
    pub(crate) step_downs: u64,
}
