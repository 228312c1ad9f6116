//! Several replicas of one partition: each attaches its own files once, at the leader's offsets, regardless of
//! truncations.

use super::*;
use crate::log::AttachNotice;
use std::cell::RefCell;

/// Ids of the brokers that have the staged files.
const HOLDERS: [i32; 2] = [1, 2];

/// Return a replica with one record in its log, and two writers' attempts sealed as plan 7.
fn replica() -> Fixture {
    let fixture = Fixture::new(small_segments());
    fixture.append(batch(&["before"])).expect("appends");
    let one = stage(&fixture, 1, &texts("a", 9));
    let two = stage(&fixture, 2, &texts("b", 7));
    let listing = Listing {
        place: planned(&fixture),
        holders: HOLDERS.into(),
        attempts: vec![one, two],
    };
    fixture.dir().seal_partitions(&[listing]).expect("seals");
    fixture
}

fn planned(fixture: &Fixture) -> StagedPartition {
    place(fixture).with_plan(7)
}

/// Attach as leader; return the announcement for followers.
fn lead(fixture: &Fixture, epoch: i32, copy_bytes_max: u64) -> AttachNotice {
    let told = RefCell::new(None);
    let log = fixture.log();
    log.attach_and_announce(
        &planned(fixture),
        epoch,
        TimestampType::CreateTime,
        NOW,
        copy_bytes_max,
        &|notice| {
            if let Some(notice) = &notice {
                assert!(
                    log.log_end_offset() <= notice.base_offset,
                    "nobody can have read what is not announced"
                );
            }
            *told.borrow_mut() = notice;
        },
    )
    .expect("attaches");
    told.into_inner().expect("announced")
}

fn follow(fixture: &Fixture, told: &AttachNotice, copy: u64) -> Result<AttachResult, AppendError> {
    let log = fixture.log();
    log.attach_as_follower(&planned(fixture), told, NOW, copy)
}

fn bytes(fixture: &Fixture) -> Vec<u8> {
    let log = fixture.log();
    let (mut next, mut all) = (0, Vec::new());
    while next < log.log_end_offset() {
        let read = log
            .read(next, 1 << 20, log.log_end_offset(), true)
            .expect("reads");
        let found = read.to_vec().expect("bytes");
        for batch in Batches::new(&found) {
            next = batch.expect("a batch").0.next_offset();
        }
        all.extend(found);
    }
    all
}

#[test]
fn a_follower_attaches_the_same_bytes_from_its_own_files() {
    for (leads, follows) in [(LINK, LINK), (LINK, COPY), (COPY, LINK)] {
        let (leader, mut follower) = (replica(), replica());
        let told = lead(&leader, 3, leads);
        assert_eq!((told.base_offset, told.end_offset), (1, 33));
        assert_eq!((told.plan, told.leader_epoch), (7, 3));
        assert_eq!(&told.holders[..], HOLDERS);
        let attached = follow(&follower, &told, follows).expect("attaches");
        assert_eq!((attached.base_offset, attached.end_offset), (1, 33));
        assert_eq!(follower.log().flushed_end_offset(), 33);
        assert_eq!(bytes(&leader), bytes(&follower));
        // After a restart the follower still has the attached records. As a leader it would announce them to its
        // followers.
        follower.crash();
        follower.open();
        let mine = follower
            .log()
            .attached(follower.dir().path())
            .expect("reads");
        assert_eq!(mine, std::slice::from_ref(&told));
        assert!(follow(&follower, &told, follows).expect("answers").repeated);
    }
}

#[test]
fn a_follower_that_ends_elsewhere_or_has_something_else_attaches_nothing() {
    let (leader, follower) = (replica(), replica());
    follower.append(batch(&["more"])).expect("appends");
    let told = lead(&leader, 3, LINK);
    let refused = follow(&follower, &told, LINK);
    assert!(
        matches!(
            refused,
            Err(AppendError::UnexpectedOffset { got: 1, end: 2 })
        ),
        "{refused:?}"
    );
    let other = AttachNotice {
        base_offset: 2,
        end_offset: 33,
        ..told
    };
    let refused = follow(&follower, &other, LINK);
    assert!(
        matches!(
            refused,
            Err(AppendError::Storage(StorageError::Corrupt { .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(values(follower.log()), ["before", "more"]);
}

#[test]
fn what_a_new_leader_does_not_have_is_cut_off_and_attached_again_where_that_leader_says() {
    for copy in [LINK, COPY] {
        let mut follower = replica();
        let first = lead(&replica(), 3, LINK);
        follow(&follower, &first, copy).expect("attaches");
        // Only the dead leader had attached the records. The leader of epoch 4 first appends another record.
        follower.log().truncate_to(1, NOW).expect("truncates");
        assert_eq!(values(follower.log()), ["before"]);
        assert_eq!(
            follower
                .log()
                .attached(follower.dir().path())
                .expect("reads"),
            []
        );
        follower.crash();
        follower.open();
        follower.log().begin_epoch(4).expect("begins");
        follower.append(batch(&["after"])).expect("appends");
        let told = AttachNotice {
            base_offset: 2,
            end_offset: 34,
            leader_epoch: 4,
            ..first
        };
        let attached = follow(&follower, &told, copy).expect("attaches");
        assert!(!attached.repeated, "it was taken out");
        let mut all = vec!["before".to_owned(), "after".to_owned()];
        all.extend(expected(&[("a", 9), ("b", 7)]));
        assert_eq!(values(follower.log()), all);
        // When the follower becomes leader, a repeated attach still attaches the records only once.
        follower.log().begin_epoch(5).expect("begins");
        let again =
            follower
                .log()
                .attach(&planned(&follower), 5, TimestampType::CreateTime, NOW, copy);
        assert!(again.expect("answers").repeated);
    }
}

#[test]
fn cutting_an_attached_segment_leaves_what_is_staged_whole() {
    // Truncate at the first attached record, in the middle and at the end. Then append more and open everything again.
    for cut in [1, 2, 5, 19, 33] {
        let mut fixture = replica();
        let staged = staged_bytes(&fixture);
        lead(&fixture, 3, LINK);
        fixture.append(batch(&["after"])).expect("appends");
        fixture.log().truncate_to(cut, NOW).expect("truncates");
        let end = fixture.log().log_end_offset();
        for _ in 0..3 {
            fixture.append(batch(&["other"])).expect("appends");
        }
        fixture.crash();
        fixture.open();
        fixture.append(batch(&["other"])).expect("appends");
        assert_eq!(staged_bytes(&fixture), staged, "cut at {cut}");
        let mut all = before_and_sealed();
        all.truncate(end as usize);
        all.extend(std::iter::repeat_n("other".to_owned(), 4));
        assert_eq!(values(fixture.log()), all, "cut at {cut}");
        plan::segments(&planned(&fixture)).expect("as planned");
    }
}

#[test]
fn nothing_is_appended_to_a_staged_file_after_a_restart() {
    let mut fixture = replica();
    let staged = staged_bytes(&fixture);
    // The process ends before the empty segment after the attached segments has a file.
    lead(&fixture, 3, LINK);
    fixture.crash();
    fixture.open();
    fixture.append(batch(&["after"])).expect("appends");
    assert_eq!(staged_bytes(&fixture), staged);
}
