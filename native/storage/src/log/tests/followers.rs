//! Leader epochs, and appends and truncations as follower.

use super::*;

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

fn leader_batch(base: i64, epoch: i32, values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None)
        .base_offset(base)
        .leader_epoch(epoch);
    for value in values {
        builder.push(NOW, None, Some(value.as_bytes()));
    }
    builder.build().expect("builds")
}

/// The leader's log starts at offset 3, within a batch.
#[test]
fn a_batch_that_begins_before_the_log_starts_is_taken_whole() {
    let mut f = Fixture::new(LogConfig::default());
    f.log()
        .append_as_follower(&leader_batch(0, 1, &["a"]), NOW)
        .expect("appends");
    let within = leader_batch(1, 1, &["b", "c", "d", "e"]);
    f.log()
        .truncate_fully_and_start_at(3, NOW)
        .expect("starts over");
    let end = f.log().append_as_follower(&within, NOW);
    assert_eq!(end.expect("appends"), 5);
    for _ in 0..2 {
        assert_eq!(
            (f.log().log_start_offset(), f.log().log_end_offset()),
            (3, 5)
        );
        f.log().flush().expect("flushes");
        f.stop();
        f.open();
    }
    // A log that has records refuses such a batch.
    let end = f
        .log()
        .append_as_follower(&leader_batch(4, 1, &["x", "y"]), NOW);
    assert!(matches!(
        end,
        Err(AppendError::UnexpectedOffset { got: 4, end: 5 })
    ));
}

/// A response with many batches, larger than a segment: the log has some already, and their epochs differ.
#[test]
fn batches_that_stand_together_are_written_together() {
    let mut f = Fixture::new(small_segments());
    let mut bytes = Vec::new();
    for n in 0..60 {
        bytes.extend(leader_batch(n, 1 + (n / 25) as i32, &[&n.to_string()]));
    }
    let end = f
        .log()
        .append_as_follower(&bytes[..leader_batch(0, 1, &["0"]).len()], NOW);
    assert_eq!(end.expect("appends"), 1);
    assert_eq!(
        f.log().append_as_follower(&bytes, NOW).expect("appends"),
        60
    );
    let wanted: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    assert!(f.log().segment_count() > 3);
    for _ in 0..2 {
        assert_eq!(values(f.log()), wanted);
        let starts = f.log().leader_epochs();
        let starts: Vec<i64> = starts.iter().map(|epoch| epoch.start_offset).collect();
        assert_eq!(starts, [0, 25, 50]);
        f.crash();
        f.open();
    }
    // The topic's segment size is now smaller than one batch of the leader.
    let large = leader_batch(60, 3, &["x".repeat(4_000).as_str()]);
    assert!(large.len() > f.log().config().segment_bytes as usize);
    let end = f.log().append_as_follower(&large, NOW);
    assert_eq!(end.expect("appends"), 61);
}

#[test]
fn a_sync_that_meets_a_truncation_claims_nothing() {
    let f = Fixture::new(small_segments());
    for n in 0..60 {
        f.log()
            .append_as_follower(&leader_batch(n, 1, &[&n.to_string()]), NOW)
            .expect("appends");
    }
    let log = f.log();
    let before = log.sample();
    log.truncate_to(40, NOW).expect("truncates");
    assert!(log.was_truncated(&before));
    assert_eq!(log.publish_flushed(&before), None);
    assert!(log.flushed_end_offset() <= 40);
    // A sample taken during a truncation may contain the old ends and segments.
    let guard = log.begin_truncation();
    let meanwhile = log.sample();
    assert!(log.was_truncated(&meanwhile));
    assert_eq!(log.publish_flushed(&meanwhile), None);
    drop(guard);
    assert_eq!(log.publish_flushed(&meanwhile), None);
    let after = log.sample();
    assert!(!log.was_truncated(&after));
    assert_eq!(log.publish_flushed(&after), Some(40));
}

#[test]
fn followers_take_offsets_and_truncate() {
    let mut f = Fixture::new(small_segments());
    let mut bytes = leader_batch(0, 1, &["a", "b"]);
    bytes.extend(leader_batch(2, 2, &["c"]));
    let whole = bytes.len();
    bytes.extend(&leader_batch(3, 2, &["cut"])[..70]);
    assert_eq!(f.log().append_as_follower(&bytes, NOW).expect("appends"), 3);
    assert_eq!(
        f.log()
            .append_as_follower(&bytes[..whole], NOW)
            .expect("known already"),
        3
    );
    assert_eq!(values(f.log()), ["a", "b", "c"]);
    let overlapping = leader_batch(2, 2, &["x", "y"]);
    assert!(matches!(
        f.log().append_as_follower(&overlapping, NOW),
        Err(AppendError::UnexpectedOffset { got: 2, end: 3 })
    ));
    for n in 3..60 {
        f.log()
            .append_as_follower(&leader_batch(n, 3, &[&n.to_string()]), NOW)
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
        .append_as_follower(&leader_batch(0, 4, &["n"]), NOW)
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
