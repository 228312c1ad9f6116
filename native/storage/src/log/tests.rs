//! The log of one partition: appends, reads, rolls and flushes.

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
mod followers;
mod model;
mod producers;
mod retention;

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
        .set_on_flush(Box::new(move |end, _| tell.store(end, Ordering::SeqCst)));
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
