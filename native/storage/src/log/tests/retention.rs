//! Timestamps of records, and removal by retention.

use super::*;

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

    f.log().set_config(Arc::new(LogConfig {
        retention_bytes: 0,
        retention_ms: -1,
        ..small_segments()
    }));
    let removed = f.log().apply_retention(101, NOW).expect("removes");
    assert_eq!(removed.segments, 1, "the active one too");
    assert_eq!((f.log().log_start_offset(), f.log().size_bytes()), (101, 0));
    assert_eq!(f.append(batch(&["y"])).expect("appends").base_offset, 101);
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
