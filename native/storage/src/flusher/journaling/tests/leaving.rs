//! Records removed from the log files and the journal: they do not return after a crash, and no other records are lost
//! with them.

use super::*;

#[test]
fn what_was_truncated_does_not_come_back() {
    for kind in CRASHES {
        for to in [1, 2, 3] {
            let mut f = begun();
            for value in ["a", "b", "c"] {
                put(&f, value);
            }
            f.log().truncate_to(to, NOW).expect("truncates");
            let kept = ["first", "a", "b"][..to as usize].to_vec();
            crash(&mut f, kind);
            f.open();
            assert_eq!(values(f.log()), kept, "{kind:?} {to}");
            // Write other records at the same positions, in the same epoch and in the next one.
            put(&f, "again");
            put(&f, "and again");
            f.log().truncate_to(to, NOW).expect("truncates");
            f.log().begin_epoch(5).expect("begins");
            put(&f, "other");
            put(&f, "more");
            f.log().truncate_to(to + 1, NOW).expect("truncates");
            put(&f, "most");
            put(&f, "end");
            crash(&mut f, kind);
            f.open();
            let expected: Vec<_> = kept
                .iter()
                .copied()
                .chain(["other", "most", "end"])
                .collect();
            assert_eq!(values(f.log()), expected, "{kind:?} {to}");
        }
    }
}

#[test]
fn a_log_that_began_anew_stays_so() {
    let mut f = begun();
    put(&f, "a");
    put(&f, "b");
    f.log()
        .truncate_fully_and_start_at(10, NOW)
        .expect("truncates");
    crash(&mut f, Crash::Kept);
    f.open();
    assert_eq!(
        (f.log().log_start_offset(), f.log().log_end_offset()),
        (10, 10)
    );
}

#[test]
fn what_replaces_a_compacted_segment_is_left_as_it_is() {
    let config = LogConfig {
        cleanup_policy: crate::CleanupPolicy {
            delete: false,
            compact: true,
        },
        ..LogConfig::default()
    };
    for kind in CRASHES {
        let mut f = Fixture::new(config.clone());
        for (key, value) in [("k", "1"), ("k", "2"), ("l", "3"), ("k", "4")] {
            f.append(keyed(Codec::None, NOW, &[(key, Some(value))]))
                .expect("appends");
            flush(&f);
        }
        f.log().roll(NOW).expect("rolls");
        put(&f, "active");
        put(&f, "in the journal");
        assert!(f.dir().flusher().journal_figures().entries >= 4);
        let end = f.log().log_end_offset();
        let done = f.log().compact(end, NOW, 1000).expect("compacts");
        assert!(done.bytes_after < done.bytes_before);
        put(&f, "later");
        crash(&mut f, kind);
        f.open();
        assert_eq!(
            values(f.log()),
            ["3", "4", "active", "in the journal", "later"],
            "{kind:?}"
        );
    }
}

#[test]
fn what_is_deleted_waits_whole_and_its_successor_gets_nothing_of_it() {
    for kind in CRASHES {
        let mut f = begun();
        put(&f, "a");
        put(&f, "b");
        let (log, dir) = (Arc::clone(f.log()), Arc::clone(f.dir()));
        f.append(batch(&["not flushed"])).expect("appends");
        dir.stage_logs(&[&log], NOW).remove(0).expect("stages");
        // The new log has the same name, and the same number of bytes at the same positions.
        let old = f.id;
        let new = many(&dir, "topic", TopicId::random(), 1).remove(0);
        f.id = new.id();
        f.log = Some(Arc::clone(&new));
        drop((log, dir, new));
        put(&f, "FIRST");
        put(&f, "A");
        crash(&mut f, kind);
        f.open();
        assert_eq!(values(f.log()), ["FIRST", "A"], "{kind:?}");
        let log = Arc::clone(f.log());
        let dir = Arc::clone(f.dir());
        dir.stage_logs(&[&log], NOW).remove(0).expect("stages");
        let back = dir
            .restore(old, "topic")
            .expect("restores")
            .expect("it waited");
        let (log, _) = dir
            .open_log(&back, old, Arc::default(), NOW)
            .expect("opens");
        assert_eq!(values(&log), ["first", "a", "b", "not flushed"], "{kind:?}");
    }
}

#[test]
fn retention_takes_segments_away_for_good() {
    let mut f = begun();
    put(&f, "a");
    f.log().roll(NOW).expect("rolls");
    put(&f, "b");
    put(&f, "c");
    let end = f.log().log_end_offset();
    f.log().delete_records(2, end).expect("deletes");
    f.dir()
        .checkpoint_log_starts(&[Arc::clone(f.log())])
        .expect("checkpoints");
    f.log().apply_retention(end, NOW).expect("removes");
    crash(&mut f, Crash::Shorter);
    f.open();
    assert_eq!(values(f.log()), ["b", "c"]);
    assert_eq!(f.log().log_start_offset(), 2);
}

#[test]
fn more_leave_than_there_is_room_to_say() {
    let mut f = begun();
    f.crash();
    let mut options = crate::LogDirOptions::new(1, "cluster".into());
    options.journal_bytes = 1;
    f.log_dir = Some(LogDir::open(&f.path(), &options).expect("opens"));
    f.open();
    put(&f, "a");
    for at in 0..300 {
        put(&f, &format!("{at}"));
        f.log().leave_journal().expect("leaves");
    }
    put(&f, "last");
    crash(&mut f, Crash::Zeros);
    f.open();
    assert_eq!(values(f.log()).len(), 303);
}

#[test]
fn followers_keep_what_they_were_given() {
    let mut f = Fixture::new(LogConfig::default());
    let leader_batch = |base: i64, epoch: i32, value: &str| {
        let mut builder = BatchBuilder::new(Codec::None)
            .base_offset(base)
            .leader_epoch(epoch);
        builder.push(NOW, None, Some(value.as_bytes()));
        builder.build().expect("builds")
    };
    for at in 0..5 {
        f.log()
            .append_as_follower(&leader_batch(at, 2, "old"), NOW)
            .expect("appends");
        flush(&f);
    }
    f.log().truncate_to(2, NOW).expect("truncates");
    for at in 2..6 {
        f.log()
            .append_as_follower(&leader_batch(at, 3, "new"), NOW)
            .expect("appends");
        flush(&f);
    }
    assert!(f.log().synced_end_offset() < 6);
    crash(&mut f, Crash::Half);
    f.open();
    assert_eq!(values(f.log()), ["old", "old", "new", "new", "new", "new"]);
    assert_eq!(f.log().epoch_for(2), Some(3));
}
