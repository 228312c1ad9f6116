//! Cleaner threads: compact the dirtiest log that is due, then look again (Kafka: `LogCleaner`).

use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_storage::StorageError;

use crate::Partition;
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

/// Memory of one entry in the table of keys that a pass builds; see `Log::compact`.
const KEY_BYTES: usize = 40;
/// A pass with fewer keys than this would not be worth its reading.
const KEYS_MIN: usize = 1_024;
/// A log that could not be compacted is tried again after this time, and reported again if that fails.
const RETRY_AFTER_MS: i64 = 10 * 60_000;
/// Longest pause that the limit on bytes a second asks for at once; the rest is asked for again.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What the threads share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Logs being compacted: no two threads take the same.
    busy: Mutex<HashSet<TopicIdPartition>>,
    /// Logs whose last pass failed, and when they are tried again: until then they do not keep others waiting.
    failing: Mutex<HashMap<TopicIdPartition, i64>>,
}

/// The life of one thread. Threads above the number set now only wait.
pub(crate) fn run(background: &Background, number: usize) {
    loop {
        let settings = background.cleaner();
        let active = settings.enabled && number < settings.threads;
        let worked = active
            .then(|| clean_dirtiest(background, &settings))
            .flatten();
        let pause = match worked {
            Some(bytes) if settings.io_bytes_per_second < f64::MAX => {
                let share =
                    (settings.io_bytes_per_second / settings.threads.max(1) as f64).max(1.0);
                Duration::try_from_secs_f64(bytes as f64 / share)
                    .map_or(PAUSE_MAX, |pause| pause.min(PAUSE_MAX))
            }
            Some(_) => Duration::ZERO,
            None => Duration::from_millis(u64::try_from(settings.backoff_ms).unwrap_or(0).max(1)),
        };
        if background.is_stopping() || (!pause.is_zero() && !background.pause(pause)) {
            return;
        }
    }
}

/// Compacts the log that needs it most. Gives the bytes read and written; `None` if none is due, or it failed.
fn clean_dirtiest(background: &Background, settings: &CleanerSettings) -> Option<u64> {
    let now_ms = background.now_ms();
    let partition = choose(background, now_ms)?;
    let log = partition.log()?;
    let keys_max =
        (settings.dedupe_buffer_bytes / settings.threads.max(1) / KEY_BYTES).max(KEYS_MIN);
    let result = log.compact(partition.high_watermark(), now_ms, keys_max);
    let shared = &background.cleaning;
    shared.busy.lock().remove(&partition.tip());
    match result {
        Ok(compacted) => {
            shared.failing.lock().remove(&partition.tip());
            Some(compacted.bytes_before.saturating_add(compacted.bytes_after))
        }
        // It was stopped or deleted meanwhile.
        Err(StorageError::Closed { .. }) => None,
        Err(error) => {
            shared
                .failing
                .lock()
                .insert(partition.tip(), now_ms.saturating_add(RETRY_AFTER_MS));
            background.replicas.report_storage(
                &format_args!("compaction of {}", log.directory().display()),
                &error,
            );
            // Not None: others may be due.
            Some(0)
        }
    }
}

/// The dirtiest log that is due and that no other thread has; it is marked as taken.
fn choose(background: &Background, now_ms: i64) -> Option<Arc<Partition>> {
    let map = background.replicas.map.load_full();
    let mut busy = background.cleaning.busy.lock();
    let mut best: Option<(f64, &Arc<Partition>)> = None;
    for partition in map.partitions() {
        let Some(log) = partition.log() else { continue };
        if !partition.config().log.cleanup_policy.compact
            || busy.contains(&partition.tip())
            || partition.role().leader().is_err()
            || background
                .cleaning
                .failing
                .lock()
                .get(&partition.tip())
                .is_some_and(|again| *again > now_ms)
        {
            continue;
        }
        if let Ok(Some(cleanable)) = log.cleanable(partition.high_watermark(), now_ms)
            && cleanable.due
            && best.is_none_or(|(ratio, _)| ratio < cleanable.dirty_ratio)
        {
            best = Some((cleanable.dirty_ratio, partition));
        }
    }
    let (_, partition) = best?;
    busy.insert(partition.tip());
    Some(Arc::clone(partition))
}
