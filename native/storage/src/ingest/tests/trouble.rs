//! Power cuts and full disks around an attach: no gap below it, nothing of it twice, nothing of others lost.

use super::*;
use crate::files;
use std::sync::atomic::AtomicI64;

#[test]
fn what_lies_below_is_on_disk_before_the_intent() {
    for limit in [LINK, COPY] {
        // Others append during none, one, and each of the syncs.
        for busy in [0, 1, 100] {
            let fixture = Fixture::new(LogConfig::default());
            let told = Arc::new(AtomicI64::new(0));
            let callback = Arc::clone(&told);
            fixture.log().set_on_flush(Box::new(move |end| {
                callback.fetch_max(end, Ordering::AcqRel);
            }));
            fixture.append(batch(&["before"])).expect("appends");
            sealed(&fixture);
            let log = Arc::clone(fixture.log());
            let between = std::cell::Cell::new(0);
            let intended = std::cell::Cell::new(false);
            let killed = log.attach_until(
                &place(&fixture),
                EPOCH,
                TimestampType::CreateTime,
                NOW,
                limit,
                |at| {
                    if at == Step::Below && between.get() < busy {
                        fixture.append(batch(&["between"])).expect("appends");
                        between.set(between.get() + 1);
                    }
                    if at == Step::Intended {
                        intended.set(true);
                        assert_eq!(log.flushed_end_offset(), 1 + between.get());
                        assert_eq!(log.log_end_offset(), 1 + between.get());
                    }
                    at == Step::Intended
                },
            );
            assert!(killed.is_err() && intended.get());
            assert_eq!(told.load(Ordering::Acquire), 1 + between.get());
            if busy == 100 {
                assert!(between.get() < busy, "the last sync waits for nobody");
            }
        }
    }
}

#[test]
fn a_full_disk_after_the_links_says_nothing_wrong() {
    let mut fixture = Fixture::new(small_segments());
    fixture.append(batch(&["before"])).expect("appends");
    sealed(&fixture);
    let log = Arc::clone(fixture.log());
    // Writes to the producers' snapshot at the new end meet a full disk.
    let snapshot = file_names::of_segment(&fixture.partition(), 33, file_names::SNAPSHOT);
    let full = files::temporary(&snapshot);
    std::os::unix::fs::symlink("/dev/full", &full).expect("links");
    let first = log.attach(
        &place(&fixture),
        EPOCH,
        TimestampType::CreateTime,
        NOW,
        LINK,
    );
    assert!(!snapshot.exists(), "the disk was full");
    std::fs::remove_file(&full).expect("removes");
    let again = log.attach(
        &place(&fixture),
        EPOCH,
        TimestampType::CreateTime,
        NOW,
        LINK,
    );
    let all = before_and_sealed();
    assert_eq!(values(&log), all);
    check_headers(&fixture);
    assert_eq!(first.expect("attached").end_offset, 33);
    assert!(again.expect("answers").repeated);
    drop(log);
    fixture.crash();
    fixture.open();
    assert_eq!(values(fixture.log()), all);
}

#[test]
fn an_attach_that_is_undone_leaves_the_log_as_it_was() {
    let mut config = small_segments();
    config.retention_ms = 1_000;
    for emptied in [false, true] {
        let mut fixture = Fixture::new(config.clone());
        for text in texts("old", 3) {
            fixture.append(text).expect("appends");
        }
        if emptied {
            // The active segment is an empty file then, open, and its name is all that tells the log's end.
            let retained = fixture.log().apply_retention(6, NOW + 5_000);
            assert!(retained.expect("retains").segments > 0);
        }
        sealed(&fixture);
        let place = place(&fixture);
        let planned = plan_segments(&place).expect("plan");
        let second = file_names::of_segment(&fixture.partition(), 6 + planned[0].rows, LOG);
        std::fs::write(&second, b"not ours").expect("writes");
        let log = Arc::clone(fixture.log());
        let failed = log.attach(&place, EPOCH, TimestampType::CreateTime, NOW, LINK);
        assert!(
            matches!(
                failed,
                Err(AppendError::Storage(StorageError::Exists { .. }))
            ),
            "{failed:?}"
        );
        assert_eq!(std::fs::read(&second).expect("is there"), b"not ours");
        std::fs::remove_file(&second).expect("removes");
        assert_eq!(log.log_end_offset(), 6);
        drop(log);
        let mut all = if emptied {
            vec![]
        } else {
            expected(&[("old", 3)])
        };
        if emptied {
            fixture.crash();
            fixture.open();
            assert_eq!(
                fixture.log().log_end_offset(),
                6,
                "no offset is given twice"
            );
        }
        fixture.append(batch(&["after"])).expect("appends");
        all.push("after".into());
        fixture.log().flush().expect("flushes");
        fixture.crash();
        fixture.open();
        assert_eq!(values(fixture.log()), all);
        let attached = fixture
            .log()
            .attach(&place, EPOCH, TimestampType::CreateTime, NOW, LINK);
        assert_eq!(attached.expect("attaches").base_offset, 7);
        all.extend(expected(&[("a", 9), ("b", 7)]));
        assert_eq!(values(fixture.log()), all);
    }
}

#[test]
fn an_append_after_an_undone_attach_is_in_the_file() {
    let mut config = small_segments();
    config.retention_ms = 1_000;
    let mut fixture = Fixture::new(config);
    fixture.append(batch(&["old"])).expect("appends");
    let retained = fixture.log().apply_retention(1, NOW + 5_000);
    assert!(retained.expect("retains").segments > 0);
    sealed(&fixture);
    let place = place(&fixture);
    let planned = plan_segments(&place).expect("plan");
    let second = file_names::of_segment(&fixture.partition(), 1 + planned[0].rows, LOG);
    std::fs::write(&second, b"not ours").expect("writes");
    assert!(
        fixture
            .log()
            .attach(&place, EPOCH, TimestampType::CreateTime, NOW, LINK)
            .is_err()
    );
    fixture.append(batch(&["after"])).expect("appends");
    fixture.log().flush().expect("flushes");
    std::fs::remove_file(&second).expect("removes");
    fixture.crash();
    fixture.open();
    assert_eq!(values(fixture.log()), ["after"]);
}

#[test]
fn a_copy_with_a_torn_batch_inside_is_made_again_whole() {
    for behind in [false, true] {
        let mut fixture = Fixture::new(LogConfig::default());
        fixture.append(batch(&["before"])).expect("appends");
        let before = fixture.log().size_bytes();
        sealed(&fixture);
        let log = Arc::clone(fixture.log());
        let killed = killed_at(&fixture, Step::Published, COPY);
        assert!(killed.is_err());
        if behind {
            fixture.append(batch(&["behind"])).expect("appends");
        }
        let path = log.segments.load()[0].path(LOG);
        drop(log);
        fixture.crash();
        // A power cut kept what follows, not one page of the copy.
        let mut bytes = std::fs::read(&path).expect("reads");
        let second = before as usize + (bytes.len() - before as usize) / 16;
        bytes[second + 70] ^= 1;
        std::fs::write(&path, bytes).expect("writes");
        fixture.open();
        assert_eq!(values(fixture.log()), ["before"]);
        let place = place(&fixture);
        let attached = fixture
            .log()
            .attach(&place, EPOCH, TimestampType::CreateTime, NOW, COPY);
        assert!(!attached.expect("attaches").repeated);
        let all = before_and_sealed();
        assert_eq!(values(fixture.log()), all);
        check_headers(&fixture);
    }
}
