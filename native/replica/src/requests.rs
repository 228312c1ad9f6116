//! What the server asks of a partition, and what it gets.

use pybroker_storage::{AttachNotice, LogSlice};

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset; with the list of aborted transactions.
    ReadCommitted,
    /// Up to the log end: followers and the control plane's own reads.
    LogEnd,
}

/// One partition of a Fetch request.
#[derive(Debug, Clone, Copy)]
pub struct FetchRead {
    /// First offset wanted.
    pub offset: i64,
    /// Bytes at most.
    pub max_bytes: usize,
    /// How far.
    pub isolation: Isolation,
    /// The leader epoch that the client knows, -1: none.
    pub current_leader_epoch: i32,
    /// Epoch of the last record that the client has (v12), -1: none.
    pub last_fetched_epoch: i32,
    /// Give one whole batch even if it exceeds `max_bytes`.
    pub at_least_one: bool,
    /// Also where another broker leads (KIP-392): up to what is committed as far as this replica has heard.
    pub any_replica: bool,
}

/// What a read found.
#[derive(Debug)]
pub struct PartitionRead {
    /// The records; length 0 at the end of what may be read.
    pub records: LogSlice,
    /// That end, for this isolation level.
    pub bound: i64,
    /// As the response shows it.
    pub high_watermark: i64,
    /// As the response shows it.
    pub last_stable_offset: i64,
    /// As the response shows it.
    pub log_start_offset: i64,
    /// Aborted transactions in the range (`ReadCommitted` only): (producer id, first offset).
    pub aborted: Option<Vec<(i64, i64)>>,
    /// The client's log diverges: largest (epoch, end offset) in common; no records then (KIP-595).
    pub diverging: Option<EpochEnd>,
    /// Of a replica that has it staged: it attaches this itself, and gets no records.
    pub attach: Option<AttachNotice>,
}

/// End of a leader epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch not above the one asked for; -1: not known.
    pub leader_epoch: i32,
    /// Offset after its last record; -1: not known.
    pub end_offset: i64,
}

/// Which offset ListOffsets wants; the negative timestamps of the wire by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// -1: the end that this isolation level sees.
    Latest,
    /// -2, and -4 (local log, KIP-405): the log start.
    Earliest,
    /// -3: of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// First record with at least this timestamp.
    Timestamp(i64),
}

/// An answer of ListOffsets; -1 in all fields where nothing matches.
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

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendInfo {
    /// Offset of the first record; of the original for a duplicate.
    pub base_offset: i64,
    /// Offset of the last record: wait for this one's commit.
    pub last_offset: i64,
    /// Milliseconds, -1 unless the topic stamps LogAppendTime.
    pub log_append_time: i64,
    /// Log start.
    pub log_start_offset: i64,
    /// How often this broker had stopped leading: who waits for the commit waits for that of this leadership.
    pub(crate) step_downs: u64,
}
