//! Jobs of the maintenance thread. Each job visits all logs in turn. It reports a log that fails and continues with the
//! next one. A disk failure takes the log directory offline.

use hashbrown::HashSet;
use pybroker_storage::StorageError;

use super::shared::BackgroundState;

const RETENTION: &str = "retention";

/// Remove segments by age and size, roll old active segments, expire idle producers.
pub(crate) fn apply_retention(shared: &BackgroundState) {
    let now_ms = shared.now_ms();
    let map = shared.replicas.map.load_full();
    let mut full = HashSet::new();
    for partition in map.partitions() {
        if shared.is_stopping() {
            return;
        }
        if let Err(error) = partition.apply_retention(now_ms) {
            let (topic, index) = (partition.topic(), partition.tip().partition);
            let what = format_args!("retention of {topic}-{index}");
            match (&error, partition.dir()) {
                (StorageError::Full { .. }, Some(dir)) => {
                    full.insert(dir);
                    shared.report_failure((RETENTION, dir), &what, &error);
                }
                _ => shared.replicas.report_storage(&what, &error),
            }
        }
    }
    for dir in (0..shared.replicas.dirs.len()).filter(|dir| !full.contains(dir)) {
        shared.report_success((RETENTION, dir));
    }
}

/// Checkpoint the recovery points and log starts, after the indexes and producer snapshots on which they depend.
pub(crate) fn checkpoint_recovery_points(shared: &BackgroundState) {
    for_each_dir(shared, "checkpoint of recovery points", |dir, log_dir| {
        log_dir.checkpoint(&shared.replicas.logs_of(dir))
    });
}

/// Write the log start checkpoints.
pub(crate) fn checkpoint_log_starts(shared: &BackgroundState) {
    for_each_dir(shared, "checkpoint of log starts", |dir, log_dir| {
        log_dir.checkpoint_log_starts(&shared.replicas.logs_of(dir))
    });
}

/// Report damage that readers found.
pub(crate) fn report_damage(shared: &BackgroundState) {
    let map = shared.replicas.map.load_full();
    for partition in map.partitions() {
        let Some(log) = partition.log() else { continue };
        for damage in log.take_damage() {
            let (topic, index) = (partition.topic(), partition.tip().partition);
            shared
                .replicas
                .report(&format!("{topic}-{index}: {damage}"));
        }
    }
}

/// Write the high watermark checkpoints.
pub(crate) fn checkpoint_high_watermarks(shared: &BackgroundState) {
    for_each_dir(shared, "checkpoint of high watermarks", |dir, log_dir| {
        let partitions = shared.replicas.partitions_of(dir);
        let logs: Vec<_> = partitions
            .iter()
            .filter_map(|p| Some((p.log()?.clone(), p.high_watermark())))
            .collect();
        log_dir.checkpoint_high_watermarks(&logs)
    });
}

fn for_each_dir(
    shared: &BackgroundState,
    what: &'static str,
    work: impl Fn(usize, &pybroker_storage::LogDir) -> Result<(), pybroker_storage::StorageError>,
) {
    for (at, dir) in shared.replicas.dirs.iter().enumerate() {
        let Ok(log_dir) = dir.online() else { continue };
        match work(at, log_dir) {
            Ok(()) => shared.report_success((what, at)),
            Err(error) => {
                log_dir.note_failure(&error);
                shared.report_failure((what, at), &what, &error);
            }
        }
    }
}

/// Request a flush of each log that has unflushed records and whose topic sets `flush.ms`. In commit mode, records stay
/// unflushed only briefly.
pub(crate) fn flush_overdue(shared: &BackgroundState) {
    let map = shared.replicas.map.load_full();
    for partition in map.partitions() {
        if let (Some(log), Some(dir)) = (partition.log(), partition.dir())
            && log.unflushed_records() > 0
            && log.config().flush_ms < i64::MAX
            && let Ok(log_dir) = shared.replicas.dirs.get(dir).online()
        {
            log_dir.flusher().request(log);
        }
    }
}
