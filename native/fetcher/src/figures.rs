//! Statistics of fetchers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Statistics of the threads that fetch from one leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderFigures {
    /// Broker id of the leader.
    pub leader: i32,
    /// Number of followed partitions.
    pub partitions: u64,
    /// Number of followed partitions that requests leave out at present: after an error, or until their flush.
    pub held_back: u64,
    /// Whether each thread has a connection.
    pub connected: bool,
    /// Number of Fetch requests sent.
    pub requests: u64,
    /// Bytes of records appended.
    pub bytes: u64,
    /// Number of offsets that these bytes cover.
    pub records: u64,
    /// Largest lag of a partition behind the leader's high watermark, in offsets.
    pub lag_max: i64,
}

impl LeaderFigures {
    /// Add the statistics of another thread of the same leader.
    pub(crate) fn add(&mut self, other: &Self) {
        self.partitions += other.partitions;
        self.held_back += other.held_back;
        self.connected &= other.connected;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.records += other.records;
        self.lag_max = self.lag_max.max(other.lag_max);
    }
}

/// Live counters behind [`LeaderFigures`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) partitions: AtomicU64,
    pub(crate) held_back: AtomicU64,
    pub(crate) connected: AtomicBool,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) lag_max: AtomicI64,
}

impl Counters {
    pub(crate) fn read(&self, leader: i32) -> LeaderFigures {
        LeaderFigures {
            leader,
            partitions: self.partitions.load(Relaxed),
            held_back: self.held_back.load(Relaxed),
            connected: self.connected.load(Relaxed),
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            records: self.records.load(Relaxed),
            lag_max: self.lag_max.load(Relaxed),
        }
    }
}
