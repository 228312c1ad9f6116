//! Jobs of the maintenance thread. Each job visits all logs in turn. It reports a log that fails and continues with the
//! next one. A disk failure takes the log directory offline.

use super::shared::BackgroundState;

/// Remove segments by age and size, roll old active segments, expire idle producers.
pub(crate) fn apply_retention(shared: &BackgroundState) {
    let now_ms = shared.now_ms();
    let map = shared.replicas.map.load_full();
    for partition in map.partitions() {
        if shared.is_stopping() {
            return;
        }
        if let Err(error) = partition.apply_retention(now_ms) {
            let (topic, index) = (partition.topic(), partition.tip().partition);
            shared
                .replicas
                .report_storage(&format_args!("retention of {topic}-{index}"), &error);
        }
    }
}

/// Checkpoint the recovery points and log starts, after the indexes and producer snapshots on which they depend.
pub(crate) fn checkpoint_recovery_points(shared: &BackgroundState) {
    for_each_dir(shared, "recovery points", |dir, log_dir| {
        log_dir.checkpoint(&shared.replicas.logs_of(dir))
    });
}

/// Write the log start checkpoints.
pub(crate) fn checkpoint_log_starts(shared: &BackgroundState) {
    for_each_dir(shared, "log starts", |dir, log_dir| {
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
    for_each_dir(shared, "high watermarks", |dir, log_dir| {
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
    what: &str,
    work: impl Fn(usize, &pybroker_storage::LogDir) -> Result<(), pybroker_storage::StorageError>,
) {
    for (at, dir) in shared.replicas.dirs.iter().enumerate() {
        if let Ok(log_dir) = dir.online()
            && let Err(error) = work(at, log_dir)
        {
            log_dir.note_failure(&error);
            shared
                .replicas
                .report_storage(&format_args!("checkpoint of {what}"), &error);
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
