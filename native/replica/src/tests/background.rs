use super::*;
use crate::{Background, CleanerSettings, Intervals};

fn often() -> Intervals {
    Intervals {
        initial_delay_ms: 1,
        retention_ms: 1,
        recovery_points_ms: 1,
        log_starts_ms: 1,
        high_watermarks_ms: 1,
        flush_check_ms: 1,
    }
}

#[test]
fn retention_checkpoints_and_compaction_happen_by_themselves() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut old = order(TopicId::random(), 0, 0);
    old.topic = "old".into();
    // The test clock shows 1,000 s, and the records have timestamps of second 1.
    old.config = topic_config(FlushMode::Commit, |log| {
        log.retention_ms = 1_000;
        log.segment_bytes = 100;
    });
    let mut keyed = order(TopicId::random(), 0, 0);
    keyed.topic = "keyed".into();
    keyed.config = topic_config(FlushMode::Commit, |log| {
        log.cleanup_policy.compact = true;
        log.cleanup_policy.delete = false;
        log.segment_bytes = 200;
        log.min_cleanable_dirty_ratio = 0.01;
    });
    let (old_partition, keyed_partition) = (lead(&host, &old), lead(&host, &keyed));
    for _ in 0..20 {
        for partition in [&old_partition, &keyed_partition] {
            let info = append(partition, &["k"]).expect("appends");
            wait(partition.committed(&info)).expect("commits");
        }
    }
    let size = keyed_partition.size_bytes();
    let cleaner = CleanerSettings {
        backoff_ms: 1,
        ..CleanerSettings::default()
    };
    let background = Background::start(&host.replicas, often(), cleaner).expect("starts");
    until(|| old_partition.log_start_offset() > 0);
    until(|| keyed_partition.size_bytes() < size);
    for name in [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    ] {
        until(|| dir.path().join(name).exists());
    }
    background.stop();
    assert!(host.reports.lock().is_empty(), "{:?}", host.reports.lock());
}

#[test]
fn a_failed_disk_takes_its_partitions_offline_and_tells_those_who_wait() {
    let root = tempfile::tempdir().expect("temp dir");
    let dirs = [root.path().join("a"), root.path().join("b")];
    let host = host(&dirs);
    let topic = TopicId::random();
    let orders = [order(topic, 0, 0), order(topic, 1, 0)];
    assert!(host.replicas.apply(&orders, 0).iter().all(Result::is_ok));
    let intervals = Intervals::default();
    let background =
        Background::start(&host.replicas, intervals, CleanerSettings::default()).expect("starts");
    let partition = |at: usize| host.replicas.partition(orders[at].tip).expect("hosted");
    let counter = Arc::new(Counter::default());
    let watch = partition(0)
        .watch(Isolation::ReadUncommitted, 0, &counter.waker())
        .expect("nothing to read");
    host.replicas.failed.note(0, "test");
    until(|| {
        matches!(
            append(&partition(0), &["a"]),
            Err(PartitionError::Storage(_))
        )
    });
    until(|| counter.count() == 1);
    drop(watch);
    assert!(append(&partition(1), &["a"]).is_ok());
    background.stop();
}
