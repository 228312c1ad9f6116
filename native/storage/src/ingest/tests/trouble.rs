//! Power losses and full disks during an attach: no gap before the attached records, no duplicates, no loss of other
//! records.

use super::*;
use crate::files;
use std::sync::atomic::AtomicI64;

#[test]
fn what_lies_below_is_on_disk_before_the_intent() {
    for limit in [LINK, COPY] {
        // Other appends happen during none, one, or each of the syncs.
        for busy in [0, 1, 100] {
            let fixture = Fixture::new(LogConfig::default());
            let told = Arc::new(AtomicI64::new(0));
            let callback = Arc::clone(&told);
            fixture.log().set_on_flush(Box::new(move |end, _| {
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
    // Simulate a full disk for writes of the producer snapshot at the new log end.
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
            // The active segment is then an empty open file, and only its name records the log end.
            let retained = fixture.log().apply_retention(6, NOW + 5_000);
            assert!(retained.expect("retains").segments > 0);
        }
        sealed(&fixture);
        let place = place(&fixture);
        let planned = plan::segments(&place).expect("plan");
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
    let planned = plan::segments(&place).expect("plan");
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
        // After the power loss the file has later bytes, but one page of the copy is missing.
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

/// Let the next write of an index find a full disk, until the returned file is removed.
fn full_index(dir: &Path) -> PathBuf {
    let index = file_names::of_segment(dir, 0, file_names::INDEX);
    files::remove(&index).expect("removes");
    std::os::unix::fs::symlink("/dev/full", &index).expect("links");
    index
}

/// About as many batches as an index holds in memory, 4096. The next batches soon cause a write of the index.
const ALMOST_FULL: [usize; 3] = [4092, 4096, 4097];

fn indexed(prefix: &str, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|i| batch(&[&format!("{prefix}{i}")]))
        .collect()
}

fn every_batch_indexed() -> LogConfig {
    LogConfig {
        index_interval_bytes: 1,
        ..LogConfig::default()
    }
}

/// Return true on success, false if a full disk refused it.
fn done<T: std::fmt::Debug>(outcome: Result<T, AppendError>) -> bool {
    if let Err(error) = &outcome {
        let full = matches!(error, AppendError::Storage(StorageError::Full { .. }));
        assert!(full, "{error:?}");
    }
    outcome.is_ok()
}

#[test]
fn what_a_full_disk_refused_is_not_there_after_a_restart() {
    for before in ALMOST_FULL {
        let mut fixture = Fixture::new(every_batch_indexed());
        for old in indexed("old", before) {
            fixture.append(old).expect("appends");
        }
        let staged = stage(&fixture, 1, &texts("new", 5));
        seal(&fixture, vec![staged]);
        let full = full_index(&fixture.partition());
        let copied = done(attach(&fixture, COPY));
        let mut appended = 0;
        while done(fixture.append(batch(&["more"]))) {
            appended += 1;
        }
        let end = fixture.log().log_end_offset();
        assert_eq!(
            end,
            (before + if copied { 10 } else { 0 } + appended) as i64
        );
        std::fs::remove_file(&full).expect("removes");
        fixture.crash();
        fixture.open();
        assert_eq!(fixture.log().log_end_offset(), end, "after {before}");
        assert_eq!(attach(&fixture, COPY).expect("attaches").repeated, copied);
        let all = values(fixture.log());
        let new: Vec<_> = all.into_iter().filter(|one| one.contains('-')).collect();
        assert_eq!(new, expected(&[("new", 5)]), "after {before}: once");
    }
}

#[test]
fn what_was_acknowledged_can_be_attached_whatever_was_refused_after_it() {
    for before in ALMOST_FULL {
        let fixture = Fixture::new(every_batch_indexed());
        let (mut planned, log) = stage(&fixture, 1, &indexed("staged", before));
        let full = full_index(&place(&fixture).attempt(1, 5));
        loop {
            let long = batch(&["refused in the end, and rather long"]);
            let bytes = long.len() as u64;
            let valid = ValidBatches::checked_owned(long).expect("a batch");
            if !done(log.append_as_leader(valid, -1, AppendOrigin::Client, NOW)) {
                break;
            }
            planned.rows += 1;
            planned.bytes += bytes;
        }
        std::fs::remove_file(&full).expect("removes");
        let rows = planned.rows;
        seal(&fixture, vec![(planned, log)]);
        let attached = attach(&fixture, LINK).expect("attaches");
        assert_eq!(attached.end_offset, rows, "after {before}");
    }
}

#[test]
fn files_that_are_not_what_a_plan_says_are_refused_before_the_decision() {
    let fixture = Fixture::new(LogConfig::default());
    let (planned, log) = stage(&fixture, 1, &texts("a", 3));
    let file = file_names::of_segment(&log.directory(), 0, LOG);
    let mut longer = std::fs::read(&file).expect("reads");
    longer.push(0);
    std::fs::write(&file, longer).expect("writes");
    let listing = Listing {
        place: place(&fixture),
        holders: Arc::default(),
        attempts: vec![(planned, log)],
    };
    let sealed = fixture.dir().seal_partitions(&[listing]);
    assert!(
        matches!(sealed, Err(StorageError::Corrupt { .. })),
        "{sealed:?}"
    );
}
