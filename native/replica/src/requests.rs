//! Request and result types of partition operations.

use pybroker_storage::{AttachNotice, LogSlice};

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset; includes the list of aborted transactions.
    ReadCommitted,
    /// Up to the log end, for followers and for the control plane's own reads.
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
    /// Leader epoch that the client knows, or -1.
    pub current_leader_epoch: i32,
    /// Epoch of the client's last record (v12), or -1.
    pub last_fetched_epoch: i32,
    /// Whether to return one complete batch even if it exceeds `max_bytes`.
    pub at_least_one: bool,
    /// Whether a follower may also serve the read (KIP-392), up to the high watermark that it knows.
    pub any_replica: bool,
}

/// Result of a read.
#[derive(Debug)]
pub struct PartitionRead {
    /// The records. Empty at the end of the readable range.
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
    /// Set if the client's log diverges: the largest common (epoch, end offset). The read then has no records
    /// (KIP-595).
    pub diverging: Option<EpochEnd>,
    /// Set for a replica that has staged the ingest: the replica attaches its own files and gets no records.
    pub attach: Option<AttachNotice>,
}

/// End offset of a leader epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch not above the requested one, or -1 if none is known.
    pub leader_epoch: i32,
    /// Offset after the epoch's last record, or -1 if unknown.
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

/// A result of ListOffsets. All fields are -1 if no record matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// Offset of the matching record or end.
    pub offset: i64,
    /// Timestamp of the record; -1 for `Latest` and `Earliest`.
    pub timestamp: i64,
    /// Leader epoch of the offset, or -1 if unknown.
    pub leader_epoch: i32,
}

impl ListedOffset {
    /// The result if no record matches.
    pub const NONE: Self = Self {
        offset: -1,
        timestamp: -1,
        leader_epoch: -1,
    };
}

/// Result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendInfo {
    /// Offset of the first record. For a duplicate, the offset of the original.
    pub base_offset: i64,
    /// Offset of the last record. The commit is reached when the high watermark is above it.
    pub last_offset: i64,
    /// LogAppendTime in milliseconds; -1 if the topic does not use it.
    pub log_append_time: i64,
    /// Log start offset.
    pub log_start_offset: i64,
    /// `Progress::step_downs` at the append. The commit must belong to the same leadership.
    pub(crate) step_downs: u64,
}
