use pybroker_storage::AppendOrigin;

use super::*;
use crate::{EpochEnd, Follower, ListedOffset};

fn one() -> (tempfile::TempDir, Host, PartitionOrder, Arc<Partition>) {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let order = order(TopicId::random(), 0, 3);
    let partition = lead(&host, &order);
    (dir, host, order, partition)
}

#[test]
fn a_flush_under_way_can_be_waited_for() {
    let (_dir, _host, _, partition) = one();
    assert!(partition.flush_under_way().is_none(), "nothing was written");
    for end in 1..=50 {
        append(&partition, &["a"]).expect("appends");
        if let Some(flush) = partition.flush_under_way() {
            assert_eq!(wait(flush), Ok(()));
        }
        assert_eq!(partition.high_watermark(), end);
        assert!(partition.flush_under_way().is_none());
    }
}

// checklist: R2
#[test]
fn what_is_acknowledged_is_on_disk_and_only_that_is_shown() {
    let (_dir, _host, _, partition) = one();
    let info = append(&partition, &["a", "b"]).expect("appends");
    assert_eq!((info.base_offset, info.last_offset), (0, 1));
    assert_eq!(wait(partition.committed(&info)), Ok(()));
    assert_eq!(partition.log().expect("open").flushed_end_offset(), 2);
    assert_eq!((partition.high_watermark(), latest(&partition)), (2, 2));
    let read = partition.read(&fetch(0)).expect("reads");
    assert!(read.records.len > 0);
    assert_eq!(
        (
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset
        ),
        (2, 2, 0)
    );
    assert_eq!(
        partition.read(&fetch(2)).expect("at the end").records.len,
        0
    );
    assert_eq!(
        partition.read(&fetch(3)).err(),
        Some(PartitionError::OffsetOutOfRange {
            requested: 3,
            log_start: 0,
            end: 2
        })
    );
}

#[test]
fn in_os_mode_the_log_end_is_shown_at_once() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 0);
    order.config = topic_config(FlushMode::Os, |_| {});
    let partition = lead(&host, &order);
    let info = append(&partition, &["a"]).expect("appends");
    assert_eq!(partition.high_watermark(), 1);
    assert_eq!(partition.committed(&info).try_get(), Some(Ok(())));
}

#[test]
fn requests_with_another_leader_epoch_are_fenced() {
    let (_dir, host, mut order, partition) = one();
    append(&partition, &["a"]).expect("appends");
    let with = |epoch| FetchRead {
        current_leader_epoch: epoch,
        ..fetch(0)
    };
    assert!(partition.read(&with(3)).is_ok());
    assert_eq!(
        partition.read(&with(2)).err(),
        Some(PartitionError::FencedLeaderEpoch {
            requested: 2,
            current: 3
        })
    );
    assert_eq!(
        partition.read(&with(4)).err(),
        Some(PartitionError::UnknownLeaderEpoch {
            requested: 4,
            current: 3
        })
    );
    order.leader_epoch = 5;
    lead(&host, &order);
    assert_eq!(
        partition.end_offset_for_epoch(3, 5),
        Ok(EpochEnd {
            leader_epoch: 3,
            end_offset: 1
        }),
        "epoch 3 ended where 5 began"
    );
    assert_eq!(
        partition.end_offset_for_epoch(5, -1),
        Ok(EpochEnd {
            leader_epoch: 5,
            end_offset: 1
        })
    );
    assert_eq!(
        partition.end_offset_for_epoch(1, -1),
        Ok(EpochEnd {
            leader_epoch: 1,
            end_offset: 0
        }),
        "below the first epoch: the log start"
    );
}

#[test]
fn a_client_whose_log_diverged_is_told_where() {
    let (_dir, host, mut order, partition) = one();
    append(&partition, &["a"]).expect("appends");
    order.leader_epoch = 5;
    lead(&host, &order);
    append(&partition, &["b"]).expect("appends");
    let read = partition
        .read(&FetchRead {
            last_fetched_epoch: 3,
            ..fetch(2)
        })
        .expect("answers");
    assert_eq!(
        read.diverging,
        Some(EpochEnd {
            leader_epoch: 3,
            end_offset: 1
        })
    );
    assert_eq!(read.records.len, 0);
    let fine = partition
        .read(&FetchRead {
            last_fetched_epoch: 3,
            ..fetch(1)
        })
        .expect("answers");
    assert_eq!(fine.diverging, None);
}

#[test]
fn offsets_by_name_and_by_time() {
    let (_dir, _host, _, partition) = one();
    let info = append(&partition, &["a", "b"]).expect("appends");
    wait(partition.committed(&info)).expect("commits");
    let list = |spec| partition.list_offset(spec, Isolation::ReadUncommitted, -1);
    assert_eq!(
        list(OffsetSpec::Earliest),
        Ok(ListedOffset {
            offset: 0,
            timestamp: -1,
            leader_epoch: 3
        })
    );
    assert_eq!(
        list(OffsetSpec::Timestamp(1_000)),
        Ok(ListedOffset {
            offset: 0,
            timestamp: 1_000,
            leader_epoch: 3
        })
    );
    assert_eq!(list(OffsetSpec::Timestamp(1_001)), Ok(ListedOffset::NONE));
    assert_eq!(
        list(OffsetSpec::MaxTimestamp).map(|listed| listed.timestamp),
        Ok(1_000)
    );
}

#[test]
fn too_few_in_sync_replicas() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 0);
    order.config = Arc::new(TopicConfig {
        min_insync_replicas: 2,
        ..TopicConfig::default()
    });
    let partition = lead(&host, &order);
    assert_eq!(
        append(&partition, &["a"]),
        Err(PartitionError::NotEnoughReplicas {
            isr: 1,
            required: 2
        })
    );
    let batches = || ValidBatches::checked_owned(batch(&["a"])).expect("valid");
    let info = partition
        .append(batches(), 1, 0)
        .expect("acks=1 does not ask");
    assert_eq!(
        wait(partition.committed(&info)),
        Err(PartitionError::NotEnoughReplicasAfterAppend {
            isr: 1,
            required: 2
        })
    );
}

/// The partition refuses the first of several requests in flight, and accepts appends again before the later ones
/// arrive. The later batches must wait until the first is retried.
#[test]
fn a_batch_behind_a_refused_one_is_refused_likewise() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 3);
    order.isr = [1, 2].into();
    order.replicas = [1, 2].into();
    order.config = Arc::new(TopicConfig {
        min_insync_replicas: 2,
        ..TopicConfig::default()
    });
    let partition = lead(&host, &order);
    append_from(&partition, 0).expect("appends");
    let alone = PartitionOrder {
        isr: [1].into(),
        version: order.version + 1,
        ..order.clone()
    };
    lead(&host, &alone);
    let refused = PartitionError::NotEnoughReplicas {
        isr: 1,
        required: 2,
    };
    assert_eq!(append_from(&partition, 1), Err(refused.clone()));
    let both = PartitionOrder {
        version: order.version + 2,
        ..order.clone()
    };
    lead(&host, &both);
    assert_eq!(append_from(&partition, 2), Err(refused.clone()));
    append_from(&partition, 0).expect("a duplicate");
    assert_eq!(append_from(&partition, 3), Err(refused));
    append_from(&partition, 1).expect("it comes again");
    append_from(&partition, 2).expect("so does the next");
}

/// The log alone does not show that a batch is missing, so the partition remembers the refusal.
#[test]
fn an_unknown_producer_begins_anywhere_but_behind_a_refused_batch() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 3);
    let required = |min_insync_replicas, sequence| {
        Arc::new(TopicConfig {
            min_insync_replicas,
            sequence,
            ..TopicConfig::default()
        })
    };
    order.config = required(2, 1);
    let partition = lead(&host, &order);
    let refused = PartitionError::NotEnoughReplicas {
        isr: 1,
        required: 2,
    };
    assert_eq!(append_from(&partition, 6), Err(refused.clone()));
    host.replicas
        .set_topic_config(order.tip.topic_id, &required(1, 2));
    assert_eq!(append_from(&partition, 7), Err(refused.clone()));
    assert_eq!(append_from(&partition, 8), Err(refused));
    for sequence in 6..9 {
        append_from(&partition, sequence).expect("in order");
    }
}

#[test]
fn the_last_stable_offset_is_at_least_the_log_start() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let order = order(TopicId::random(), 0, 3);
    let partition = lead(&host, &order);
    let mut open = BatchBuilder::new(Codec::None)
        .producer(77, 0, 0)
        .transactional();
    open.push(1_000, None, Some(b"open"));
    let open = ValidBatches::checked_owned(open.build().expect("builds")).expect("valid");
    let info = partition
        .append_from(AppendOrigin::Verified(0), -1, open, -1, 0)
        .expect("appends");
    wait(partition.committed(&info)).expect("commits");
    let info = append(&partition, &["a", "b", "c"]).expect("appends");
    wait(partition.committed(&info)).expect("commits");
    let ends = || {
        let start = partition.log_start_offset();
        let committed = FetchRead {
            isolation: Isolation::ReadCommitted,
            ..fetch(start)
        };
        let read = partition.read(&committed).expect("reads");
        let latest = partition.list_offset(OffsetSpec::Latest, Isolation::ReadCommitted, -1);
        let latest = latest.expect("lists").offset;
        assert_eq!(read.last_stable_offset, latest);
        assert_eq!(partition.last_stable_offset(), latest);
        (start, latest)
    };
    assert_eq!(ends(), (0, 0));
    let counter = Arc::new(Counter(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counter));
    let waits = partition.watch(Isolation::ReadCommitted, 0, &waker);
    partition.delete_records(2).expect("deletes");
    assert_eq!(ends(), (2, 2));
    assert_eq!(counter.0.load(SeqCst), 1, "readers look again");
    drop(waits);
    host.replicas.set_topic_config(
        order.tip.topic_id,
        &topic_config(FlushMode::Commit, |log| log.retention_bytes = 0),
    );
    partition.apply_retention(1_000).expect("removes");
    assert_eq!(ends(), (4, 4));
}

/// A leader that was paused and replaced sees a sequence gap, because it lacks its successor's records.
#[test]
fn a_gap_is_told_by_a_leader_that_is_followed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 3);
    order.isr = [1, 2].into();
    order.replicas = [1, 2, 3].into();
    let partition = lead(&host, &order);
    append_from(&partition, 0).expect("appends");
    assert_eq!(append_from(&partition, 2), Err(PartitionError::NotLeader));
    assert_eq!(append_from(&partition, 3), Err(PartitionError::NotLeader));
    let come = |broker| {
        let follower = follower_of(broker);
        // Evaluate the waiting request again.
        for _ in 0..2 {
            let fetch = FetchRead {
                current_leader_epoch: partition.leader_epoch(),
                ..fetch(0)
            };
            let read = partition.read_for_follower(follower, &fetch, Instant::now());
            read.expect("reads");
        }
    };
    come(2);
    assert_eq!(
        append_from(&partition, 2),
        Err(PartitionError::NotLeader),
        "that one may have waited while this broker was paused"
    );
    come(2);
    assert_eq!(
        append_from(&partition, 3),
        Err(PartitionError::NotLeader),
        "it comes behind one that may come again"
    );
    assert!(matches!(
        append_from(&partition, 2),
        Err(PartitionError::OutOfOrderSequence(_))
    ));
    append_from(&partition, 1).expect("what was missing");
    append_from(&partition, 2).expect("and what followed");
    let alone = PartitionOrder {
        isr: [1].into(),
        version: order.version + 1,
        ..order.clone()
    };
    lead(&host, &alone);
    assert!(
        matches!(
            append_from(&partition, 4),
            Err(PartitionError::OutOfOrderSequence(_))
        ),
        "nobody else can lead"
    );
}

/// Return a follower's request that arrives now.
fn follower_of(broker: i32) -> Follower {
    Follower {
        broker,
        broker_epoch: 1,
        received: Instant::now(),
    }
}

#[test]
fn followers_hold_the_high_watermark_back() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 3);
    order.isr = [1, 2].into();
    order.replicas = [1, 2, 3].into();
    let partition = lead(&host, &order);
    let info = append(&partition, &["a", "b"]).expect("appends");
    until(|| {
        partition
            .log()
            .is_some_and(|log| log.flushed_end_offset() == 2)
    });
    assert_eq!(partition.committed(&info).try_get(), None);
    assert!(
        partition.flush_under_way().is_none(),
        "a flush does not help: the follower is missing"
    );
    let fetch = |follower, offset, current_leader_epoch| {
        let fetch = FetchRead {
            current_leader_epoch,
            ..fetch(offset)
        };
        let follower = follower_of(follower);
        let read = partition.read_for_follower(follower, &fetch, Instant::now());
        read.map(|read| (read.bound, read.records.len > 0))
    };
    let epoch = partition.leader_epoch();
    assert_eq!(fetch(2, 1, epoch), Ok((2, true)), "above the watermark");
    assert_eq!(partition.high_watermark(), 1);
    assert_eq!(fetch(2, 2, -1), Ok((2, false)), "its epoch is not told");
    assert_eq!(fetch(3, 2, epoch), Ok((2, false)), "not in sync");
    assert!(matches!(
        fetch(7, 2, epoch),
        Err(PartitionError::UnknownLeaderEpoch { .. })
    ));
    assert_eq!(fetch(7, 2, -1), Err(PartitionError::NotLeader));
    assert!(matches!(
        fetch(2, 2, epoch - 1),
        Err(PartitionError::FencedLeaderEpoch { .. })
    ));
    assert!(matches!(
        fetch(2, 3, epoch),
        Err(PartitionError::OffsetOutOfRange { .. })
    ));
    assert_eq!(partition.high_watermark(), 1);
    order.isr = [1].into();
    order.version += 1;
    lead(&host, &order);
    assert_eq!(
        wait(partition.committed(&info)),
        Ok(()),
        "the ISR shrank within the epoch"
    );
    assert_eq!(partition.high_watermark(), 2);
}

#[test]
fn a_follower_is_woken_by_records_that_wait_for_it() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 3);
    (order.isr, order.replicas) = ([1, 2].into(), [1, 2].into());
    let partition = lead(&host, &order);
    append(&partition, &["a"]).expect("appends");
    let counter = Arc::new(Counter::default());
    let watch = |isolation, bound| partition.watch(isolation, bound, &counter.waker());
    assert!(watch(Isolation::LogEnd, 0).is_none(), "there is a record");
    let _registration = watch(Isolation::LogEnd, 1).expect("nothing above 1");
    let _consumer = watch(Isolation::ReadUncommitted, 0).expect("not committed");
    append(&partition, &["b"]).expect("appends");
    assert_eq!(counter.count(), 1, "the follower alone");
    assert_eq!(partition.high_watermark(), 0);
}

#[test]
fn a_watch_is_woken_by_new_records_and_by_a_stop() {
    let (_dir, host, order, partition) = one();
    let counter = Arc::new(Counter::default());
    let watch = |bound| partition.watch(Isolation::ReadUncommitted, bound, &counter.waker());
    let registration = watch(0).expect("nothing to read");
    let info = append(&partition, &["a"]).expect("appends");
    wait(partition.committed(&info)).expect("commits");
    assert_eq!(counter.count(), 1);
    drop(registration);
    assert!(watch(0).is_none(), "there is something to read");
    let waiting = watch(1).expect("nothing above 1");
    assert_eq!(host.replicas.stop(&[stop(&order, true)], 0), [Ok(())]);
    assert_eq!(counter.count(), 2);
    drop(waiting);
    assert!(watch(1).is_none(), "look again: it is gone");
    assert_eq!(
        partition.read(&fetch(0)).err(),
        Some(PartitionError::Deleted)
    );
    assert_eq!(append(&partition, &["b"]), Err(PartitionError::Deleted));
}

#[test]
fn records_are_deleted_up_to_the_high_watermark_only() {
    let (_dir, host, order, partition) = one();
    for value in ["a", "b", "c"] {
        let info = append(&partition, &[value]).expect("appends");
        wait(partition.committed(&info)).expect("commits");
    }
    assert_eq!(host.replicas.delete_records(order.tip, 2), Ok(2));
    assert_eq!(partition.log_start_offset(), 2);
    assert!(matches!(
        host.replicas.delete_records(order.tip, 4),
        Err(PartitionError::OffsetOutOfRange { requested: 4, .. })
    ));
    assert!(matches!(
        partition.read(&fetch(1)),
        Err(PartitionError::OffsetOutOfRange { .. })
    ));
    assert_eq!(host.replicas.delete_records(order.tip, -1), Ok(3));
    partition.set_config(&topic_config(FlushMode::Commit, |log| {
        log.cleanup_policy.compact = true;
        log.cleanup_policy.delete = false;
    }));
    assert!(matches!(
        host.replicas.delete_records(order.tip, -1),
        Err(PartitionError::Policy(_))
    ));
}

/// Writers, committers and readers use one partition while its leader epoch changes. The log has every acknowledged
/// append exactly once, in offset order.
#[test]
fn appends_from_many_threads_with_changing_epochs() {
    const THREADS: usize = 4;
    const APPENDS: usize = 60;
    let (_dir, host, order, partition) = one();
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (partition, acknowledged) = (&partition, &acknowledged);
            scope.spawn(move || {
                for number in 0..APPENDS {
                    let value = format!("{thread}-{number}");
                    // While a new epoch is being written, appends in the old one are refused, and clients retry.
                    let info = loop {
                        match append(partition, &[&value]) {
                            Ok(info) => break info,
                            Err(error) => assert_eq!(error, PartitionError::NotLeader),
                        }
                        std::thread::yield_now();
                    };
                    wait(partition.committed(&info)).expect("commits");
                    acknowledged.lock().push((info.base_offset, value));
                }
            });
        }
        scope.spawn(|| {
            for epoch in 4..20 {
                let order = PartitionOrder {
                    leader_epoch: epoch,
                    ..order.clone()
                };
                assert_eq!(host.replicas.apply(&[order], 0), [Ok(())]);
                std::thread::yield_now();
            }
        });
    });
    let mut acknowledged = acknowledged.into_inner();
    acknowledged.sort();
    assert_eq!(partition.high_watermark(), (THREADS * APPENDS) as i64);
    for (offset, (expected, value)) in (0..).zip(acknowledged) {
        assert_eq!(expected, offset);
        let read = partition
            .read(&FetchRead {
                max_bytes: 1,
                ..fetch(offset)
            })
            .expect("reads");
        let bytes = read.records.to_vec().expect("reads");
        assert!(
            bytes
                .windows(value.len())
                .any(|window| window == value.as_bytes()),
            "{value} at {offset}"
        );
    }
}

#[test]
fn settings_decided_later_win_whatever_arrives_first() {
    let (_dir, host, order, partition) = one();
    let with = |sequence, retention_ms| {
        let config = topic_config(FlushMode::Commit, |log| log.retention_ms = retention_ms);
        Arc::new(TopicConfig {
            sequence,
            ..(*config).clone()
        })
    };
    host.replicas
        .set_topic_config(order.tip.topic_id, &with(5, 50));
    let late = PartitionOrder {
        config: with(4, 40),
        ..order.clone()
    };
    lead(&host, &late);
    assert_eq!(partition.config().log.retention_ms, 50);
    assert_eq!(partition.log().expect("open").config().retention_ms, 50);
    // Another partition of the topic: the order is from before the change, and the partition is opened after it.
    let mut other = late;
    other.tip.partition = 1;
    assert_eq!(lead(&host, &other).config().log.retention_ms, 50);
}
