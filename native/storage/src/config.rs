//! Settings of one log: topic configs resolved by the control plane.

use pybroker_model::TimestampType;

/// `log.flush.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Acknowledge records, and let consumers read them, only when they are on disk.
    Commit,
    /// Leave writeback to the operating system, as Kafka does.
    Os,
}

/// `cleanup.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Remove old segments by age and size.
    pub delete: bool,
    /// Keep only the newest record of each key.
    pub compact: bool,
}

/// Topic configs under their Kafka names. Sizes in bytes, times in milliseconds, -1 = no limit as in Kafka.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each field is the topic config of the same name
pub struct LogConfig {
    pub segment_bytes: u32,
    pub segment_ms: i64,
    pub segment_jitter_ms: i64,
    pub index_interval_bytes: u32,
    pub segment_index_bytes: u32,
    pub retention_ms: i64,
    pub retention_bytes: i64,
    pub cleanup_policy: CleanupPolicy,
    pub min_cleanable_dirty_ratio: f64,
    pub delete_retention_ms: i64,
    pub min_compaction_lag_ms: i64,
    pub max_compaction_lag_ms: i64,
    pub file_delete_delay_ms: i64,
    pub max_message_bytes: i32,
    pub timestamp_type: TimestampType,
    pub preallocate: bool,
    pub producer_id_expiration_ms: i64,
    /// Not a topic config, but the broker's `producer.ids.per.partition.max`.
    pub producer_ids_per_partition_max: usize,
    /// Not a topic config, but the broker's `producer.ids.max`, a limit for all partitions together.
    pub producer_ids_max: usize,
    pub flush_mode: FlushMode,
    pub flush_messages: i64,
    pub flush_ms: i64,
    /// Number of bytes of a segment after which writes bypass the page cache. Not a topic config: staged logs take it
    /// from `ingest.cached.bytes.max`.
    pub cached_bytes_max: u64,
}

impl Default for LogConfig {
    /// Kafka's defaults, and `commit` for `log.flush.mode`.
    fn default() -> Self {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 << 20,
            retention_ms: 7 * DAY_MS,
            retention_bytes: -1,
            cleanup_policy: CleanupPolicy {
                delete: true,
                compact: false,
            },
            min_cleanable_dirty_ratio: 0.5,
            delete_retention_ms: DAY_MS,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            file_delete_delay_ms: 60_000,
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            preallocate: false,
            producer_id_expiration_ms: DAY_MS,
            producer_ids_per_partition_max: 20_000,
            producer_ids_max: 500_000,
            flush_mode: FlushMode::Commit,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            cached_bytes_max: u64::MAX,
        }
    }
}
