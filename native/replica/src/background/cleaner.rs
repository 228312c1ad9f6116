//! Cleaner threads: each compacts the dirtiest log that is due, then looks for the next one (Kafka: `LogCleaner`).

use std::sync::Arc;
use std::time::Duration;

use pybroker_storage::StorageError;

use super::shared::{BackgroundState, CleanerSettings};
use crate::Partition;

const COMPACTION: &str = "compaction";

/// Memory of one entry in the key table of a compaction pass; see `Log::compact`.
const KEY_BYTES: usize = 40;
/// Minimum number of keys in a key table: a pass with fewer keys would read too much and remove too little.
const KEYS_MIN: usize = 1_024;
/// Delay before the cleaner retries a log whose compaction failed; another failure is reported again.
const RETRY_AFTER_MS: i64 = 10 * 60_000;
/// Longest single sleep for the I/O limit in bytes per second. A longer pause takes several sleeps.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Main loop of a cleaner thread. Threads numbered above the current setting only sleep.
pub(crate) fn run(shared: &BackgroundState, number: usize) {
    loop {
        let settings = shared.cleaner();
        let active = settings.enabled && number < settings.threads;
        let worked = active.then(|| clean_dirtiest(shared, &settings)).flatten();
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
        if shared.is_stopping() || (!pause.is_zero() && !shared.pause(pause)) {
            return;
        }
    }
}

/// Compact the dirtiest log that is due. Return the number of bytes read and written, or `None` if no log is due or the
/// log was closed.
fn clean_dirtiest(shared: &BackgroundState, settings: &CleanerSettings) -> Option<u64> {
    let now_ms = shared.now_ms();
    let partition = choose(shared, now_ms)?;
    let log = partition.log()?;
    let keys_max =
        (settings.dedupe_buffer_bytes / settings.threads.max(1) / KEY_BYTES).max(KEYS_MIN);
    let result = log.compact(partition.high_watermark(), now_ms, keys_max);
    let cleaning = &shared.cleaning;
    cleaning.busy.lock().remove(&partition.tip());
    match result {
        Ok(compacted) => {
            let mut failing = cleaning.failing.lock();
            failing.remove(&partition.tip());
            let nothing_fails = failing.is_empty();
            drop(failing);
            if let (true, Some(dir)) = (nothing_fails, partition.dir()) {
                shared.report_success((COMPACTION, dir));
            }
            Some(compacted.bytes_before.saturating_add(compacted.bytes_after))
        }
        // The partition was stopped or deleted during the pass.
        Err(StorageError::Closed { .. }) => None,
        Err(error) => {
            cleaning
                .failing
                .lock()
                .insert(partition.tip(), now_ms.saturating_add(RETRY_AFTER_MS));
            let what = format!("compaction of {}", log.directory().display());
            match (&error, partition.dir()) {
                (StorageError::Full { .. }, Some(dir)) => {
                    shared.report_failure((COMPACTION, dir), &what, &error);
                }
                _ => shared.replicas.report_storage(&what, &error),
            }
            // Return `Some`, because after `None` the thread pauses although other logs may be due.
            Some(0)
        }
    }
}

/// Return the dirtiest log that is due and that no other thread compacts, and mark it as busy.
fn choose(shared: &BackgroundState, now_ms: i64) -> Option<Arc<Partition>> {
    let map = shared.replicas.map.load_full();
    let mut busy = shared.cleaning.busy.lock();
    let mut best: Option<(f64, &Arc<Partition>)> = None;
    for partition in map.partitions() {
        let Some(log) = partition.log() else { continue };
        if !partition.config().log.cleanup_policy.compact
            || busy.contains(&partition.tip())
            || partition.role().leader().is_err()
            || shared
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
