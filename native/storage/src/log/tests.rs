use crate::testing::*;
use crate::{
    AppendError, AppendOrigin, CleanupPolicy, EpochEntry, LogConfig, ReadError, StorageError,
};
use pybroker_model::{
    BatchBuilder, Batches, Codec, ControlType, ValidBatches, end_transaction_marker,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

mod damage;
mod model;

fn small_segments() -> LogConfig {
    LogConfig {
        segment_bytes: 1000,
        index_interval_bytes: 100,
        ..LogConfig::default()
    }
}

#[test]
fn append_read_and_reopen() {
    let mut f = Fixture::new(LogConfig::default());
    assert_eq!(f.log().read(0, 100, 0, true).expect("empty").len, 0);
    let first = f.append(batch(&["a", "b"])).expect("appends");
    assert_eq!(
        (first.base_offset, first.last_offset, first.duplicate),
        (0, 1, false)
    );
    assert_eq!(f.append(batch(&["c"])).expect("appends").base_offset, 2);
    assert_eq!(values(f.log()), ["a", "b", "c"]);
    assert!(matches!(
        f.log().read(4, 1, 9, true),
        Err(ReadError::OutOfRange { .. })
    ));
    assert!(matches!(
        f.log().read(-1, 1, 9, true),
        Err(ReadError::OutOfRange { .. })
    ));
    f.crash();
    assert!(!f.open().clean);
    assert_eq!(values(f.log()), ["a", "b", "c"]);
    f.stop();
    let report = f.open();
    assert!(report.clean);
    assert_eq!(report.scanned_bytes, 0);
    assert_eq!(f.log().log_end_offset(), 3);
    assert_eq!(f.append(batch(&["d"])).expect("appends").base_offset, 3);
    assert_eq!(values(f.log()), ["a", "b", "c", "d"]);
}

#[test]
fn reads_respect_their_bounds() {
    let f = Fixture::new(LogConfig::default());
    for value in ["a", "b", "c"] {
        f.append(batch(&[value])).expect("appends");
    }
    let one = batch(&["a"]).len();
    let len = |offset, max, upper, at_least_one| {
        f.log()
            .read(offset, max, upper, at_least_one)
            .expect("reads")
            .len
    };
    assert_eq!(len(0, 1 << 20, 3, true), 3 * one);
    assert_eq!(
        len(0, 1 << 20, 2, true),
        2 * one,
        "the high watermark bounds"
    );
    assert_eq!(len(1, 1 << 20, 2, true), one);
    assert_eq!(
        len(0, one + 5, 3, true),
        one + 5,
        "the last batch may be cut"
    );
    assert_eq!(len(0, 5, 3, true), one, "progress with oversized batches");
    assert_eq!(
        len(0, 5, 3, false),
        0,
        "but not past the limit of the whole fetch"
    );
    assert_eq!(len(3, 5, 3, true), 0);
}

#[test]
fn segments_roll_and_are_found() {
    let mut f = Fixture::new(small_segments());
    let expected: Vec<String> = (0..200).map(|n| format!("value-{n}")).collect();
    for value in &expected {
        f.append(batch(&[value])).expect("appends");
    }
    assert!(f.log().segment_count() > 10);
    for reopened in 0..3 {
        assert_eq!(values(f.log()), expected);
        for offset in 0..200 {
            let read = read_from(f.log(), offset, 10);
            assert_eq!(read[0].0, offset, "round {reopened}");
            assert_eq!(read.len(), 200 - offset as usize);
        }
        if reopened == 0 {
            f.stop()
        } else {
            f.crash()
        }
        assert_eq!(f.open().clean, reopened == 0);
    }
}

#[test]
fn segments_roll_by_time_and_by_index() {
    let f = Fixture::new(LogConfig {
        segment_ms: 1000,
        ..LogConfig::default()
    });
    let at = |time| keyed(Codec::None, time, &[("k", None)]);
    f.append(at(NOW)).expect("appends");
    f.append(at(NOW + 1000)).expect("appends");
    assert_eq!(f.log().segment_count(), 1);
    f.append(at(NOW + 1001)).expect("appends");
    assert_eq!(f.log().segment_count(), 2);
    let f = Fixture::new(LogConfig {
        segment_index_bytes: 24,
        index_interval_bytes: 0,
        ..LogConfig::default()
    });
    for time in 0..10 {
        f.append(at(NOW + time)).expect("appends");
    }
    assert!(f.log().segment_count() >= 3);
    let f = Fixture::new(LogConfig {
        segment_bytes: 100,
        ..LogConfig::default()
    });
    let refused = f.append(batch(&[&"x".repeat(200)]));
    assert!(matches!(
        refused,
        Err(AppendError::LargerThanSegment { .. })
    ));
    assert_eq!(f.log().log_end_offset(), 0);
}

#[test]
fn flushes_publish_and_call_back() {
    let f = Fixture::new(LogConfig::default());
    let told = Arc::new(AtomicI64::new(-1));
    let tell = Arc::clone(&told);
    f.log()
        .set_on_flush(Box::new(move |end| tell.store(end, Ordering::SeqCst)));
    f.append(batch(&["a", "b"])).expect("appends");
    assert_eq!(
        (f.log().flushed_end_offset(), f.log().unflushed_records()),
        (0, 2)
    );
    assert_eq!(f.log().flush().expect("flushes"), 2);
    assert_eq!(
        (told.load(Ordering::SeqCst), f.log().flushed_end_offset()),
        (2, 2)
    );
    for n in 0..100 {
        f.append(batch(&[&n.to_string()])).expect("appends");
        f.dir().flusher().request(f.log());
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while told.load(Ordering::SeqCst) < 102 {
        assert!(std::time::Instant::now() < deadline, "flushed in the end");
        std::thread::yield_now();
    }
}

#[test]
fn a_failure_takes_the_directory_offline_once() {
    let f = Fixture::new(LogConfig::default());
    f.append(batch(&["a"])).expect("appends");
    f.log().health.fail("disk on fire");
    f.log().health.fail("later");
    for error in [
        f.log().flush().map(|_| ()),
        f.log()
            .read(0, 10, 1, true)
            .map(|_| ())
            .map_err(|e| match e {
                ReadError::Storage(error) => error,
                other => panic!("{other}"),
            }),
        f.append(batch(&["b"])).map(|_| ()).map_err(|e| match e {
            AppendError::Storage(error) => error,
            other => panic!("{other}"),
        }),
        f.dir().check(),
    ] {
        assert!(
            matches!(error, Err(StorageError::Offline { reason, .. }) if reason == "disk on fire")
        );
    }
}

#[test]
fn idempotent_producers_across_restarts() {
    let mut f = Fixture::new(LogConfig::default());
    assert!(matches!(
        f.append(sequenced(1, 0, 5, 1)),
        Err(AppendError::OutOfOrderSequence { .. })
    ));
    for sequence in 0..7 {
        f.append(sequenced(1, 0, sequence, 1)).expect("appends");
    }
    for restart in 0..4 {
        for sequence in 2..7 {
            let again = f.append(sequenced(1, 0, sequence, 1)).expect("a duplicate");
            assert_eq!(
                (again.base_offset, again.duplicate),
                (i64::from(sequence), true),
                "restart {restart}"
            );
        }
        assert!(matches!(
            f.append(sequenced(1, 0, 9, 1)),
            Err(AppendError::OutOfOrderSequence { .. })
        ));
        match restart {
            0 => f.stop(),
            1 => f.crash(),
            2 => {
                f.dir()
                    .checkpoint(&[Arc::clone(f.log())])
                    .expect("checkpoints");
                f.crash();
            }
            _ => break,
        }
        f.open();
    }
    assert_eq!(f.log().log_end_offset(), 7);
}

#[test]
fn transactions_are_bounded_indexed_and_recovered() {
    let mut f = Fixture::new(LogConfig::default());
    let transactional = |producer, sequence| {
        let mut builder = BatchBuilder::new(Codec::None)
            .producer(producer, 0, sequence)
            .transactional();
        builder.push(NOW, None, Some(b"t"));
        builder.build().expect("builds")
    };
    let marker = |f: &Fixture, producer, kind, epoch| {
        let bytes = end_transaction_marker(producer, 0, kind, epoch, NOW).expect("builds");
        let batch = ValidBatches::checked_owned(bytes).expect("valid");
        f.log()
            .append_as_leader(batch, 0, AppendOrigin::Coordinator, NOW)
    };
    f.append(batch(&["plain"])).expect("appends");
    f.append(transactional(1, 0)).expect("appends");
    f.append(transactional(2, 0)).expect("appends");
    assert!(matches!(
        f.append(sequenced(1, 0, 1, 1)),
        Err(AppendError::InvalidTxnState { .. })
    ));
    for round in 0..3 {
        assert_eq!(f.log().last_stable_offset(3), 1, "round {round}");
        assert_eq!(f.log().open_transactions(), [(1, 1), (2, 2)]);
        match round {
            0 => f.crash(),
            1 => f.stop(),
            _ => break,
        }
        f.open();
    }
    marker(&f, 1, ControlType::Abort, 0).expect("appends");
    assert_eq!(f.log().last_stable_offset(4), 2);
    marker(&f, 2, ControlType::Commit, 3).expect("appends");
    assert_eq!(f.log().last_stable_offset(5), 5);
    assert!(matches!(
        marker(&f, 2, ControlType::Commit, 2),
        Err(AppendError::CoordinatorFenced { .. })
    ));
    for round in 0..4 {
        let aborted = f.log().aborted_transactions(0, 5).expect("reads");
        assert_eq!(
            aborted
                .iter()
                .map(|a| (a.producer_id, a.first_offset, a.last_offset))
                .collect::<Vec<_>>(),
            [(1, 1, 3)]
        );
        assert!(
            f.log()
                .aborted_transactions(4, 5)
                .expect("reads")
                .is_empty()
        );
        match round {
            0 => f.crash(),
            1 => f.stop(),
            2 => {
                f.crash();
                std::fs::write(
                    f.partition().join("00000000000000000000.txnindex"),
                    b"garbage",
                )
                .expect("writes");
            }
            _ => break,
        }
        f.open();
    }
}

#[test]
fn epochs_begin_before_their_records_and_survive() {
    let mut f = Fixture::new(LogConfig::default());
    f.append(batch(&["a"])).expect("appends");
    assert!(f.log().begin_epoch(3).expect("begins"));
    assert!(!f.log().begin_epoch(3).expect("known"));
    let old = ValidBatches::checked_owned(batch(&["x"])).expect("valid");
    let refused = f.log().append_as_leader(old, 2, AppendOrigin::Client, NOW);
    assert!(matches!(
        refused,
        Err(AppendError::StaleLeaderEpoch { got: 2, latest: 3 })
    ));
    f.append(batch(&["b", "c"])).expect("appends");
    assert!(f.log().begin_epoch(4).expect("begins"));
    assert!(
        f.log()
            .begin_epoch(5)
            .expect("begins, and takes the place of 4")
    );
    f.append(batch(&["d"])).expect("appends");
    let expected = [(0, 0), (3, 1), (5, 3)].map(|(epoch, start_offset)| EpochEntry {
        epoch,
        start_offset,
    });
    for round in 0..3 {
        assert_eq!(f.log().leader_epochs(), expected);
        assert_eq!(f.log().end_offset_for(0), Some((0, 1)));
        assert_eq!(f.log().end_offset_for(4), Some((3, 3)));
        assert_eq!(f.log().epoch_for(2), Some(3));
        if round == 0 {
            f.stop()
        } else {
            f.crash()
        }
        f.open();
    }
    f.crash();
    std::fs::write(f.partition().join("leader-epoch-checkpoint"), b"\0\0").expect("writes");
    f.open();
    assert_eq!(
        f.log().leader_epochs(),
        expected,
        "rebuilt from the batches"
    );
}

#[test]
fn followers_take_offsets_and_truncate() {
    let mut f = Fixture::new(small_segments());
    let leader_batch = |base, epoch, values: &[&str]| {
        let mut builder = BatchBuilder::new(Codec::None)
            .base_offset(base)
            .leader_epoch(epoch);
        for value in values {
            builder.push(NOW, None, Some(value.as_bytes()));
        }
        builder.build().expect("builds")
    };
    let mut bytes = leader_batch(0, 1, &["a", "b"]);
    bytes.extend(leader_batch(2, 2, &["c"]));
    let whole = bytes.len();
    bytes.extend(&leader_batch(3, 2, &["cut"])[..70]);
    assert_eq!(
        f.log()
            .append_as_follower(&mut bytes, NOW)
            .expect("appends"),
        3
    );
    assert_eq!(
        f.log()
            .append_as_follower(&mut bytes[..whole], NOW)
            .expect("known already"),
        3
    );
    assert_eq!(values(f.log()), ["a", "b", "c"]);
    let mut overlapping = leader_batch(2, 2, &["x", "y"]);
    assert!(matches!(
        f.log().append_as_follower(&mut overlapping, NOW),
        Err(AppendError::UnexpectedOffset { got: 2, end: 3 })
    ));
    for n in 3..60 {
        f.log()
            .append_as_follower(&mut leader_batch(n, 3, &[&n.to_string()]), NOW)
            .expect("appends");
    }
    f.log().flush().expect("flushes");
    assert!(f.log().segment_count() > 3);
    assert!(f.log().truncate_to(40, NOW).expect("truncates"));
    assert!(!f.log().truncate_to(40, NOW).expect("nothing left"));
    assert_eq!(
        (f.log().log_end_offset(), f.log().flushed_end_offset()),
        (40, 40)
    );
    f.log().truncate_to(1, NOW).expect("truncates");
    assert_eq!(f.log().log_end_offset(), 0, "the batch 0..1 goes whole");
    f.log()
        .append_as_follower(&mut leader_batch(0, 4, &["n"]), NOW)
        .expect("appends");
    assert_eq!(values(f.log()), ["n"]);
    assert_eq!(
        f.log().leader_epochs(),
        [EpochEntry {
            epoch: 4,
            start_offset: 0
        }]
    );
    f.log()
        .truncate_fully_and_start_at(1000, NOW)
        .expect("starts over");
    f.crash();
    f.open();
    assert_eq!(
        (f.log().log_start_offset(), f.log().log_end_offset()),
        (1000, 1000)
    );
}

#[test]
fn times_lead_to_offsets() {
    let mut f = Fixture::new(small_segments());
    for n in 0..100 {
        f.append(keyed(
            Codec::Lz4,
            NOW + n * 10,
            &[("k", Some("v")), ("k", Some("w"))],
        ))
        .expect("appends");
    }
    for round in 0..3 {
        let end = f.log().log_end_offset();
        let at = |time| {
            f.log()
                .offset_for_timestamp(time, end)
                .expect("searches")
                .map(|found| (found.timestamp, found.offset))
        };
        assert_eq!(at(0), Some((NOW, 0)));
        for n in 0..100 {
            assert_eq!(
                at(NOW + n * 10),
                Some((NOW + n * 10, n * 2)),
                "round {round}"
            );
            assert_eq!(
                at(NOW + n * 10 - 9),
                Some((NOW + n * 10, n * 2)),
                "round {round}"
            );
        }
        assert_eq!(at(NOW + 991), None);
        let newest = f
            .log()
            .max_timestamp_offset(end)
            .expect("searches")
            .expect("some");
        assert_eq!(
            (newest.timestamp, newest.offset, newest.leader_epoch),
            (NOW + 990, 198, Some(0))
        );
        let bounded = f
            .log()
            .max_timestamp_offset(100)
            .expect("searches")
            .expect("some");
        assert_eq!(bounded.offset, 98);
        if round == 0 {
            f.stop()
        } else {
            f.crash()
        }
        f.open();
    }
}

#[test]
fn retention_by_size_time_and_start() {
    let mut f = Fixture::new(LogConfig {
        retention_bytes: 3000,
        retention_ms: -1,
        ..small_segments()
    });
    for n in 0..100 {
        f.append(keyed(
            Codec::None,
            NOW + n,
            &[("key", Some(&"v".repeat(60)))],
        ))
        .expect("appends");
    }
    let before = f.log().segment_count();
    assert_eq!(
        f.log().apply_retention(0, NOW).expect("keeps").segments,
        0,
        "nothing above the high watermark"
    );
    let removed = f.log().apply_retention(100, NOW).expect("removes");
    assert!(removed.segments > 0 && f.log().size_bytes() >= 3000 && f.log().size_bytes() < 4000);
    assert_eq!(f.log().segment_count(), before - removed.segments);
    let start = f.log().log_start_offset();
    assert!(matches!(
        f.log().read(start - 1, 10, 100, true),
        Err(ReadError::OutOfRange { .. })
    ));
    assert!(f.files().iter().any(|name| name.ends_with(".deleted")));
    f.log().purge_deleted_files(NOW + 60_000).expect("purges");
    assert!(!f.files().iter().any(|name| name.ends_with(".deleted")));

    assert_eq!(f.log().delete_records(80, 100).expect("deletes"), 80);
    assert!(matches!(
        f.log().delete_records(101, 100),
        Err(ReadError::OutOfRange { .. })
    ));
    assert_eq!(f.log().delete_records(10, 100).expect("no step back"), 80);
    f.log().apply_retention(100, NOW).expect("removes");
    assert_eq!(read_from(f.log(), 80, 1000).len(), 20);
    f.dir()
        .checkpoint(&[Arc::clone(f.log())])
        .expect("checkpoints");
    f.crash();
    f.open();
    assert_eq!(f.log().log_start_offset(), 80);

    f.log().set_config(Arc::new(LogConfig {
        retention_ms: 1000,
        ..small_segments()
    }));
    f.log()
        .apply_retention(100, NOW + 500_000)
        .expect("removes everything");
    assert_eq!(
        (
            f.log().log_start_offset(),
            f.log().log_end_offset(),
            f.log().segment_count()
        ),
        (100, 100, 1)
    );
    f.crash();
    f.open();
    assert_eq!(f.log().log_end_offset(), 100, "the end is remembered");
    assert_eq!(f.append(batch(&["x"])).expect("appends").base_offset, 100);
}

#[test]
fn a_compacted_topic_loses_nothing_by_age() {
    let compact = CleanupPolicy {
        delete: false,
        compact: true,
    };
    let f = Fixture::new(LogConfig {
        cleanup_policy: compact,
        retention_ms: 1,
        retention_bytes: 1,
        ..small_segments()
    });
    for _ in 0..50 {
        f.append(keyed(Codec::None, NOW, &[("key", Some("v"))]))
            .expect("appends");
    }
    assert_eq!(
        f.log()
            .apply_retention(50, NOW + 1_000_000)
            .expect("keeps")
            .segments,
        0
    );
}

#[test]
fn readers_never_stumble_over_the_writer_compaction_or_retention() {
    let config = LogConfig {
        segment_bytes: 2000,
        index_interval_bytes: 200,
        file_delete_delay_ms: 0,
        delete_retention_ms: 0,
        cleanup_policy: CleanupPolicy {
            delete: false,
            compact: true,
        },
        ..LogConfig::default()
    };
    let f = Fixture::new(config);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let read_whole = || {
        let log = f.log();
        let (mut offset, end) = (log.log_start_offset(), log.log_end_offset());
        while offset < end {
            let slice = match log.read(offset, 700, end, true) {
                Ok(slice) => slice,
                Err(ReadError::OutOfRange { start, .. }) if start > offset => {
                    offset = start;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let bytes = slice.to_vec().expect("reads");
            let mut next = offset;
            for batch in Batches::new(&bytes) {
                let (header, batch) = batch.expect("a batch");
                header.check_crc(batch).expect("checksum");
                assert!(header.last_offset() >= next, "offsets ascend");
                next = header.next_offset();
            }
            if next == offset {
                break;
            }
            offset = next;
        }
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        read_whole();
                    }
                })
            })
            .collect();
        for n in 0..1500i64 {
            let (key, value) = (format!("k{}", n % 13), n.to_string());
            f.append(keyed(Codec::None, NOW, &[(&key, Some(&value))]))
                .expect("appends");
            if n % 50 == 49 {
                f.log().compact(n, NOW + n, 1000).expect("compacts");
            }
            if n % 400 == 399 {
                f.log().delete_records(n - 100, n).expect("deletes");
                f.log().apply_retention(n, NOW).expect("retains");
            }
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().is_ok(), "a reader stumbled");
        }
    });
    assert!(f.dir().check().is_ok());
}
