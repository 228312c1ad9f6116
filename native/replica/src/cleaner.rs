//! Cleaner threads: compact the dirtiest log that is due, then look again (Kafka: `LogCleaner`).

use parking_lot::Mutex;

use crate::background::Shared as Background;

/// Settings of the cleaner. Kafka's names stand beside them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanerSettings {
    /// `log.cleaner.enable`.
    pub enabled: bool,
    /// `log.cleaner.threads`.
    pub threads: usize,
    /// `log.cleaner.backoff.ms`.
    pub backoff_ms: i64,
    /// `log.cleaner.dedupe.buffer.size`, for all threads together.
    pub dedupe_buffer_bytes: usize,
    /// `log.cleaner.io.max.bytes.per.second`, for all threads together.
    pub io_bytes_per_second: f64,
}

impl Default for CleanerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            threads: 1,
            backoff_ms: 15_000,
            dedupe_buffer_bytes: 128 << 20,
            io_bytes_per_second: f64::MAX,
        }
    }
}

/// What the threads share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Logs being compacted: no two threads take the same.
    busy: Mutex<hashbrown::HashSet<pybroker_model::TopicIdPartition>>,
}

/// The life of one thread.
pub(crate) fn run(background: &Background, _number: usize) {
    let _ = (
        &background.cleaning.busy,
        background.cleaner(),
        background.now_ms(),
    );
}
