//! Crashes of logs with a journal. After a power loss the disk has only the synced bytes.

use super::*;
use crate::testing::*;
use crate::{AppendOrigin, HeldFlushes, LogConfig, LogDir, NewPartition};
use pybroker_model::{BatchBuilder, Codec, TopicId, ValidBatches};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

mod leaving;

const PATIENCE: Duration = Duration::from_secs(60);

/// Effect of a power loss on unsynced bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    /// The process was killed: all bytes stay.
    Kept,
    /// The file ends after its synced bytes.
    Shorter,
    /// The file keeps its length, and its unsynced bytes are zeros.
    Zeros,
    /// The first half of the unsynced bytes reached the disk.
    Half,
}

const CRASHES: [Crash; 4] = [Crash::Kept, Crash::Shorter, Crash::Zeros, Crash::Half];

fn wait(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < PATIENCE, "waited for too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Append a record and wait until it is on disk.
fn put(f: &Fixture, value: &str) {
    f.append(batch(&[value])).expect("appends");
    flush(f);
}

fn flush(f: &Fixture) {
    f.dir().flusher().request(f.log());
    wait(|| f.log().unflushed_records() == 0);
}

/// Return a partition whose first record is in its segment, so that later ones go to the journal.
fn begun() -> Fixture {
    let f = Fixture::new(LogConfig::default());
    put(&f, "first");
    f
}

/// End the process and remove unsynced bytes from the segments. Synced bytes of the journal stay.
fn crash(f: &mut Fixture, kind: Crash) {
    let log = Arc::clone(f.log());
    f.crash();
    // Read the synced end only now: until the crash, background syncs can raise it and free the journal.
    let synced = log.synced_end_offset();
    let segments = log.segments.load_full();
    let lost: Vec<_> = segments
        .iter()
        .filter(|segment| segment.end_offset() > synced)
        .map(|segment| {
            let found = segment
                .find(synced.max(segment.base_offset))
                .expect("finds");
            (
                segment.path(crate::file_names::LOG),
                found.map_or(segment.size(), |found| found.position),
                segment.size(),
            )
        })
        .collect();
    drop((log, segments));
    for (path, from, to) in lost {
        let file = File::options().write(true).open(&path).expect("opens");
        match kind {
            Crash::Kept => {}
            Crash::Shorter => file.set_len(from).expect("cuts"),
            Crash::Zeros | Crash::Half => {
                let from = if kind == Crash::Half {
                    from.midpoint(to)
                } else {
                    from
                };
                file.set_len(from).expect("cuts");
                file.set_len(to).expect("zeros");
            }
        }
    }
}

fn meta(f: &Fixture) -> String {
    std::fs::read_to_string(f.path().join("meta.properties")).expect("reads")
}

fn journal_files(f: &Fixture) -> usize {
    let files = files_in(&f.path());
    files
        .iter()
        .filter(|name| name.starts_with("journal"))
        .count()
}

// checklist: R1, R2
#[test]
fn what_only_the_journal_has_is_there_after_a_power_cut() {
    for kind in CRASHES {
        let mut f = begun();
        assert_eq!(journal_files(&f), 0, "not before there is something for it");
        for value in ["a", "b", "c"] {
            put(&f, value);
        }
        assert_eq!(f.dir().flusher().journal_figures().entries, 3);
        assert_eq!(f.log().synced_end_offset(), 1, "{kind:?}");
        assert_eq!(journal_files(&f), 2);
        assert!(
            meta(&f).contains("pybroker.format=2"),
            "older releases refuse it"
        );
        crash(&mut f, kind);
        for _ in 0..2 {
            f.open();
            assert_eq!(values(f.log()), ["first", "a", "b", "c"], "{kind:?}");
            assert_eq!(journal_files(&f), 0, "it was replayed");
            assert!(meta(&f).contains("pybroker.format=1"));
            f.crash();
        }
        f.open();
        put(&f, "d");
        put(&f, "e");
        crash(&mut f, kind);
        f.open();
        assert_eq!(
            values(f.log()),
            ["first", "a", "b", "c", "d", "e"],
            "{kind:?}"
        );
        put(&f, "f");
        put(&f, "g");
        f.stop();
        assert_eq!(journal_files(&f), 0, "a clean stop leaves none");
        assert!(meta(&f).contains("pybroker.format=1"));
        assert!(!meta(&f).contains("pybroker.journal"));
        let report = f.open();
        assert!(report.clean);
        assert_eq!(values(f.log()).len(), 8);
    }
}

// checklist: R1
#[test]
fn logs_that_wait_together_share_a_write() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir =
        LogDir::open(temp.path(), &crate::LogDirOptions::new(1, "cluster".into())).expect("opens");
    let logs = many(&dir, "t", TopicId::random(), 40);
    let all = |value: &str| {
        for log in &logs {
            append(log, value);
        }
        for log in &logs {
            dir.flusher().request(log);
        }
        wait(|| logs.iter().all(|log| log.unflushed_records() == 0));
    };
    all("first");
    assert_eq!(
        dir.flusher().journal_figures().flushes,
        0,
        "new segments are synced"
    );
    for _ in 0..20 {
        all("again");
    }
    let figures = dir.flusher().journal_figures();
    assert_eq!(figures.entries, 40 * 20);
    assert!(figures.flushes < 40 * 20 / 2, "{figures:?}");
}

#[test]
fn what_is_held_is_written_together_and_told_together() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir =
        LogDir::open(temp.path(), &crate::LogDirOptions::new(1, "cluster".into())).expect("opens");
    let logs = many(&dir, "t", TopicId::random(), 40);
    let notified = Arc::new(WakeCount::default());
    for log in &logs {
        let (notified, waker) = (Arc::clone(&notified), Waker::from(Arc::clone(&notified)));
        log.set_on_flush(Box::new(move |_, woken| {
            if notified.told.fetch_add(1, Ordering::SeqCst) >= 40 {
                woken.add(waker.clone());
            }
        }));
        append(log, "first");
        dir.flusher().request(log);
    }
    wait(|| notified.told.load(Ordering::SeqCst) == 40);
    // So far only the segments were synced, and the journal has written nothing.
    let mut held = HeldFlushes::default();
    for log in &logs {
        append(log, "again");
        dir.flusher().request_with(log, &mut held);
    }
    assert!(!held.is_empty());
    assert_eq!(dir.flusher().journal_figures().flushes, 0);
    drop(held);
    wait(|| !notified.at_wakes.lock().is_empty());
    assert_eq!(*notified.at_wakes.lock(), [80], "woken once, after all");
    assert_eq!(dir.flusher().journal_figures().flushes, 1);
}

/// Number of logs notified of a flush, and that number when a waiter woke.
#[derive(Default)]
struct WakeCount {
    told: AtomicU64,
    at_wakes: Mutex<Vec<u64>>,
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        let told = self.told.load(Ordering::SeqCst);
        self.at_wakes.lock().push(told);
    }
}

fn many(dir: &LogDir, topic: &str, topic_id: TopicId, count: i32) -> Vec<Arc<Log>> {
    let new = |partition| NewPartition {
        topic: topic.into(),
        id: TopicIdPartition {
            topic_id,
            partition,
        },
        leader_epoch: Some(0),
    };
    let partitions: Vec<_> = (0..count).map(new).collect();
    for created in dir.create_partitions(&partitions) {
        created.expect("creates");
    }
    let open = |one: &NewPartition| {
        let opened = dir.open_log(&one.directory(), one.id, Arc::default(), NOW);
        opened.expect("opens").0
    };
    partitions.iter().map(open).collect()
}

fn append(log: &Log, value: &str) {
    let batch = ValidBatches::checked_owned(batch(&[value])).expect("valid");
    let epoch = log.latest_epoch().map_or(0, |latest| latest.epoch);
    log.append_as_leader(batch, epoch, AppendOrigin::Client, NOW)
        .expect("appends");
}

#[test]
fn what_is_large_or_new_is_synced_where_it_lies() {
    let mut f = begun();
    let large = "x".repeat(SMALL_BYTES_MAX + 1);
    put(&f, &large);
    assert_eq!(f.dir().flusher().journal_figures().entries, 0);
    assert_eq!(f.log().synced_end_offset(), 2);
    put(&f, "small");
    assert_eq!(f.log().synced_end_offset(), 2);
    f.log().roll(NOW).expect("rolls");
    put(&f, "in a new segment");
    assert_eq!(
        f.log().synced_end_offset(),
        4,
        "with the end of the one before"
    );
    put(&f, "small again");
    assert_eq!(f.dir().flusher().journal_figures().entries, 2);
    f.log().begin_epoch(7).expect("begins");
    put(&f, "of a new epoch");
    assert_eq!(f.log().synced_end_offset(), 6, "with the epochs' file");
    put(&f, "last");
    crash(&mut f, Crash::Zeros);
    f.open();
    assert_eq!(
        values(f.log())[2..],
        [
            "small",
            "in a new segment",
            "small again",
            "of a new epoch",
            "last"
        ]
    );
    assert_eq!(f.log().epoch_for(6), Some(7));
}

#[test]
fn a_checkpoint_trusts_the_segments_only() {
    let mut f = begun();
    put(&f, "a");
    put(&f, "b");
    f.dir()
        .checkpoint(&[Arc::clone(f.log())])
        .expect("checkpoints");
    let points = std::fs::read_to_string(f.path().join("recovery-point-offset-checkpoint"));
    assert!(
        points.expect("reads").contains("topic 0 1\n"),
        "what is synced"
    );
    crash(&mut f, Crash::Zeros);
    f.open();
    assert_eq!(values(f.log()), ["first", "a", "b"]);
}

#[test]
fn a_small_journal_is_used_again_and_again() {
    let mut f = Fixture::new(LogConfig::default());
    f.crash();
    let mut options = crate::LogDirOptions::new(1, "cluster".into());
    options.journal_bytes = 1;
    f.log_dir = Some(LogDir::open(&f.path(), &options).expect("opens"));
    f.open();
    put(&f, "first");
    let value = "v".repeat(20_000);
    for at in 0..150 {
        put(&f, &format!("{at} {value}"));
    }
    let figures = f.dir().flusher().journal_figures();
    assert!(
        figures.bytes > 2 * crate::journal::FILE_BYTES_MIN,
        "{figures:?}"
    );
    let files = (0..2).map(|at| crate::journal::path_of(&f.path(), at));
    for file in files {
        let bytes = std::fs::metadata(file).expect("is there").len();
        assert!(bytes <= crate::journal::FILE_BYTES_MIN, "{bytes}");
    }
    crash(&mut f, Crash::Zeros);
    f.open();
    let found = values(f.log());
    assert_eq!(found.len(), 151);
    assert!(
        found[1..]
            .iter()
            .enumerate()
            .all(|(at, found)| *found == format!("{at} {value}"))
    );
}

#[test]
fn what_lies_in_the_journal_is_synced_in_time() {
    let f = begun();
    put(&f, "a");
    assert_eq!(f.log().synced_end_offset(), 1);
    wait(|| f.log().synced_end_offset() == 2);
    wait(|| !f.dir().flusher().journaling().held(f.id));
}

#[test]
fn a_log_is_synced_beside_who_writes_the_journal() {
    let f = begun();
    put(&f, "a");
    f.log().flush_beside().expect("syncs");
    assert_eq!(f.log().synced_end_offset(), 2);
    // The records after the roll are in a new segment, whose name must be synced as well.
    f.log().roll(0).expect("rolls");
    f.append(batch(&["b"])).expect("appends");
    f.log().flush_beside().expect("syncs");
    assert_eq!(f.log().synced_end_offset(), 3);
    f.append(batch(&["c"])).expect("appends");
    // Mark the log as moved away.
    f.log().staged.store(true, Ordering::Release);
    assert!(matches!(
        f.log().flush_beside(),
        Err(StorageError::Closed { .. })
    ));
    assert_eq!(f.log().synced_end_offset(), 3, "nobody hears of it");
}

#[test]
fn a_flush_by_the_operating_system_needs_no_journal() {
    let config = LogConfig {
        flush_mode: crate::FlushMode::Os,
        ..LogConfig::default()
    };
    let f = Fixture::new(config);
    put(&f, "a");
    put(&f, "b");
    assert_eq!(f.log().synced_end_offset(), 2);
    assert_eq!(journal_files(&f), 0);
}

#[test]
fn a_disk_without_room_is_done_without_the_journal() {
    let mut f = begun();
    put(&f, "a");
    let fill_disk = |f: &Fixture, full| {
        let mut state = f.dir().flusher().journaling().state.lock();
        let journal = state.journal.as_mut().expect("there");
        journal.fill_disk(full);
    };
    fill_disk(&f, true);
    put(&f, "b");
    f.dir().check().expect("online");
    assert_eq!(f.log().synced_end_offset(), 3);
    assert!(f.dir().flusher().journal_figures().full > 0);
    fill_disk(&f, false);
    put(&f, "c");
    assert_eq!(f.log().synced_end_offset(), 3, "the journal again");
    f.log().truncate_to(3, NOW).expect("truncates");
    put(&f, "d");
    crash(&mut f, Crash::Zeros);
    f.open();
    assert_eq!(values(f.log()), ["first", "a", "b", "d"]);
}

#[test]
fn a_journal_that_cannot_be_written_takes_the_directory_offline() {
    let f = begun();
    put(&f, "a");
    {
        let mut state = f.dir().flusher().journaling().state.lock();
        let journal = state.journal.as_mut().expect("there");
        journal.break_files();
    }
    f.append(batch(&["b"])).expect("appends");
    f.dir().flusher().request(f.log());
    wait(|| f.dir().check().is_err());
    assert_eq!(f.log().flushed_end_offset(), 2, "nobody is told");
    assert!(f.append(batch(&["c"])).is_err());
}

#[test]
fn producers_write_while_the_journal_changes_files() {
    let temp = tempfile::tempdir().expect("temp dir");
    let mut options = crate::LogDirOptions::new(1, "cluster".into());
    options.journal_bytes = 1;
    let dir = LogDir::open(temp.path(), &options).expect("opens");
    let topic_id = TopicId::random();
    let logs = many(&dir, "t", topic_id, 30);
    let value = "v".repeat(3000);
    std::thread::scope(|scope| {
        for part in logs.chunks(10) {
            let (dir, value) = (&dir, &value);
            scope.spawn(move || {
                for at in 0..60 {
                    for log in part {
                        append(log, &format!("{at} {value}"));
                        dir.flusher().request(log);
                    }
                    let log = &part[at % part.len()];
                    wait(|| log.unflushed_records() == 0);
                }
            });
        }
    });
    wait(|| logs.iter().all(|log| log.unflushed_records() == 0));
    dir.check().expect("online");
    drop(logs);
    drop(dir);
    let dir = LogDir::open(temp.path(), &options).expect("opens");
    for partition in 0..30 {
        let id = TopicIdPartition {
            topic_id,
            partition,
        };
        let name = format!("t-{partition}");
        let (log, _) = dir.open_log(&name, id, Arc::default(), NOW).expect("opens");
        let found = values(&log);
        assert_eq!(found.len(), 60);
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(at, found)| *found == format!("{at} {value}"))
        );
    }
}
