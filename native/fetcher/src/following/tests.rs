use pybroker_protocol::hot::LeaderIdAndEpoch;
use pybroker_protocol::hot::fetch_response::EpochEndOffset;

use super::*;

const EPOCH: i32 = 4;
const BACKOFF: Duration = Duration::from_millis(100);

fn from(offset: i64) -> FetchFrom {
    FetchFrom {
        leader_epoch: EPOCH,
        offset,
        last_epoch: 3,
        log_start: 0,
    }
}

fn asked(offset: i64) -> (FollowerState, Instant) {
    let now = Instant::now();
    let mut following = FollowerState::new(EPOCH);
    assert!(following.ask(Some(from(offset)), now, BACKOFF));
    (following, now)
}

fn head(error: ErrorCode) -> FetchPartitionHead {
    let mut head = FetchPartitionHead::refused(0, error.0);
    if error == ErrorCode::NONE {
        (head.high_watermark, head.log_start_offset) = (30, 5);
    }
    head
}

#[test]
fn records_are_appended_and_bounds_are_taken_over() {
    let (mut following, now) = asked(10);
    let order = following.answered(&head(ErrorCode::NONE), true, now, BACKOFF);
    assert_eq!(order, Order::Append(from(10)));
    assert_eq!((following.bounds(), following.lag()), ((30, 5), 20));
    following.appended(25);
    assert_eq!(following.lag(), 5);
    following.wait_for_flush(25);
    assert_eq!(following.flushing(), Some(25));
    assert!(
        !following.is_asked_for(),
        "what is not on disk is not claimed"
    );
    following.resume();
    assert!(following.is_ready());

    assert!(following.ask(Some(from(25)), now, BACKOFF));
    let order = following.answered(&head(ErrorCode::NONE), false, now, BACKOFF);
    assert_eq!(order, Order::Follow);
    assert!(following.is_asked_for() && !following.is_ready());
}

#[test]
fn nobody_waits_for_an_answer_to_what_was_not_asked() {
    let (mut following, now) = asked(10);
    following.wait_for_flush(12);
    for has_records in [false, true] {
        let order = following.answered(&head(ErrorCode::NONE), has_records, now, BACKOFF);
        assert_eq!(order, Order::Ignore);
    }
    assert_eq!(following.told_bounds((0, 9), now, BACKOFF), Order::Ignore);
}

#[test]
fn a_cut_that_changes_nothing_is_not_tried_for_ever() {
    let (mut following, now) = asked(10);
    let mut diverging = head(ErrorCode::NONE);
    diverging.diverging_epoch = Some(EpochEndOffset {
        epoch: 2,
        end_offset: 8,
    });
    let common = EpochEnd {
        leader_epoch: 2,
        end_offset: 8,
    };
    let order = following.answered(&diverging, false, now, BACKOFF);
    assert_eq!(order, Order::Cut(from(10), common));
    assert!(following.is_ready());
    assert!(!following.ask(Some(from(10)), now, BACKOFF));
    assert!(following.paused().is_some());
    following.resume();
    assert!(
        following.ask(Some(from(10)), now, BACKOFF),
        "after the pause"
    );
}

#[test]
fn who_is_outside_of_the_leaders_log_begins_anew() {
    for (bounds, begins) in [((20, 30), Some(20)), ((0, 9), Some(0)), ((0, 30), None)] {
        let (mut following, now) = asked(10);
        let order = following.answered(&head(ErrorCode::OFFSET_OUT_OF_RANGE), false, now, BACKOFF);
        assert_eq!(order, Order::AskBounds);
        assert_eq!(following.out_of_range(), Some(from(10)));
        let order = following.told_bounds(bounds, now, BACKOFF);
        match begins {
            Some(start) => assert_eq!(order, Order::StartOver(from(10), start)),
            None => assert!(following.paused().is_some(), "the leader's log has moved"),
        }
    }
}

#[test]
fn pauses_get_longer_and_an_answer_ends_them() {
    let (mut following, now) = asked(10);
    for (nth, pause) in [20, 40, 80, 100, 100].into_iter().enumerate() {
        let refused = head(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        let order = following.answered(&refused, false, now, BACKOFF);
        let trouble = Trouble {
            error: ErrorCode::NOT_LEADER_OR_FOLLOWER,
            for_good: false,
            new: nth == 0,
        };
        assert_eq!(order, Order::HoldBack(trouble));
        assert_eq!(following.paused(), Some(now + Duration::from_millis(pause)));
        following.resume();
        assert!(following.ask(Some(from(10)), now, BACKOFF));
    }
    following.answered(&head(ErrorCode::NONE), false, now, BACKOFF);
    following.ask_again();
    assert!(!following.ask(None, now, BACKOFF), "not followed any more");
    assert_eq!(following.paused(), Some(now + FIRST_PAUSE));
}

#[test]
fn a_leader_that_knows_a_newer_epoch_is_not_asked_again() {
    let newer = LeaderIdAndEpoch {
        leader_id: 9,
        leader_epoch: EPOCH + 1,
    };
    for (error, leader) in [
        (ErrorCode::FENCED_LEADER_EPOCH, None),
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, Some(newer)),
    ] {
        let (mut following, now) = asked(10);
        let mut refused = head(error);
        refused.current_leader = leader;
        let order = following.answered(&refused, false, now, BACKOFF);
        assert!(matches!(order, Order::HoldBack(trouble) if trouble.for_good));
        following.resume();
        assert!(!following.ask_again() && !following.is_asked_for());
        assert_eq!(following.paused(), None);
    }
}

#[test]
fn another_leadership_is_not_asked_for() {
    let now = Instant::now();
    let mut following = FollowerState::new(EPOCH + 1);
    assert!(!following.ask(Some(from(10)), now, BACKOFF));
}
