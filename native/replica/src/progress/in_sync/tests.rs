use proptest::prelude::*;

use super::*;

const LAG: Duration = Duration::from_secs(30);

/// Return the time that is `ms` milliseconds after the start of the test.
fn at(ms: u64) -> Instant {
    static BEGINNING: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *BEGINNING.get_or_init(Instant::now) + Duration::from_millis(ms)
}

fn three() -> InSync {
    InSync::new(1, &[1, 2, 3], &[1, 2, 3], 5, at(0))
}

#[test]
fn a_single_replica_is_its_own_minimum() {
    assert_eq!(InSync::new(1, &[1], &[1], 0, at(0)).minimum(7), Some(7));
}

#[test]
fn members_that_were_not_heard_of_hold_the_watermark_back_and_strangers_do_not_count() {
    let mut known = three();
    assert_eq!(known.fetched(2, 20, 5, 7, at(1)), Claim::Noted);
    assert_eq!(known.minimum(7), None);
    assert_eq!(known.fetched(4, 40, 1, 7, at(1)), Claim::Stranger);
    assert_eq!(known.fetched(3, 30, 9, 9, at(1)), Claim::Noted);
    assert_eq!(known.minimum(9), Some(5));
    assert_eq!(known.fetched(2, 20, 9, 9, at(2)), Claim::Noted);
    assert_eq!(known.minimum(9), Some(9));
}

#[test]
fn a_claim_of_an_earlier_life_is_void() {
    let mut known = three();
    assert_eq!(known.fetched(2, 21, 4, 9, at(1)), Claim::Noted);
    assert_eq!(known.fetched(2, 20, 9, 9, at(2)), Claim::Stale);
    assert_eq!(known.end_of(2), Some(4));
}

#[test]
fn followed_is_who_was_asked_twice_by_all_in_sync() {
    let mut known = InSync::new(1, &[1, 2, 3, 4], &[1, 2, 3], 5, at(0));
    assert!(!known.all_came_since(0));
    known.came(2, at(1), 1);
    known.came(3, at(1), 2);
    assert!(!known.all_came_since(0), "one request each");
    known.came(2, at(2), 3);
    known.came(3, at(2), 4);
    assert!(known.all_came_since(0));
    known.came(2, at(2), 5);
    known.came(3, at(3), 6);
    known.came(3, at(4), 7);
    assert!(!known.all_came_since(2), "broker 2 has not come again");
    known.came(2, at(3), 8);
    assert!(known.all_came_since(2));
    known.fetched(4, 40, 10, 10, at(4));
    known.expand(4, 10, 0).expect("it is to join");
    assert!(!known.all_came_since(2), "it may be in sync");
    assert!(InSync::new(1, &[1, 2], &[1], 5, at(0)).all_came_since(9));
}

#[test]
fn who_stays_behind_for_too_long_is_to_go() {
    let mut known = three();
    known.fetched(2, 20, 10, 10, at(1_000));
    known.fetched(3, 30, 10, 10, at(1_000));
    // Both followers have all records, so they stay in sync even if their last fetch was long ago.
    assert_eq!(known.shrink(10, at(100_000), LAG), None);
    // The leader appends. Broker 2 stays one fetch behind, and broker 3 does not fetch.
    known.fetched(2, 20, 11, 12, at(30_000));
    known.fetched(2, 20, 12, 13, at(31_500));
    assert_eq!(known.shrink(13, at(31_000), LAG), None);
    let proposal = known.shrink(13, at(31_001), LAG).expect("broker 3 is late");
    let members: Vec<_> = proposal
        .isr
        .iter()
        .map(|m| (m.broker, m.broker_epoch))
        .collect();
    assert_eq!(members, [(1, -1), (2, 20)]);
    assert_eq!(proposal.version, 5);
    // The leaving replica counts until the controller has written the change.
    assert_eq!(known.minimum(13), Some(10));
    assert_eq!(
        known.shrink(13, at(40_000), LAG),
        None,
        "one proposal at a time"
    );
    assert!(known.written(&[1, 2], 6));
    assert_eq!(known.minimum(13), Some(12));
    assert!(!known.written(&[1, 2, 3], 6), "not newer");
    assert_eq!(known.committed, [1, 2]);
}

#[test]
fn who_has_lost_what_is_committed_is_to_go_at_once() {
    let mut known = three();
    known.fetched(2, 20, 10, 10, at(1));
    known.fetched(3, 30, 10, 10, at(1));
    assert_eq!(known.without_who_lost(3, 10), None);
    known.fetched(3, 31, 4, 10, at(2));
    let proposal = known.without_who_lost(3, 10).expect("it had 10 records");
    assert_eq!(proposal.isr.len(), 2);
    assert_eq!(known.without_who_lost(3, 10), None, "one at a time");
    assert!(known.written(&[1, 2], 6));
    assert_eq!(known.without_who_lost(3, 10), None, "it is no member");
}

#[test]
fn the_nearest_replica_is_a_member_that_has_what_is_wanted() {
    let mut known = InSync::new(1, &[1, 2, 3, 4], &[1, 2, 3], 5, at(0));
    let everybody = |_| true;
    assert_eq!(known.most_advanced(0, everybody), None, "never heard of");
    known.fetched(4, 40, 9, 9, at(1));
    known.fetched(2, 20, 7, 9, at(1));
    known.fetched(3, 30, 8, 9, at(1));
    assert_eq!(known.most_advanced(7, everybody), Some(3));
    assert_eq!(known.most_advanced(7, |broker| broker == 2), Some(2));
    assert_eq!(known.most_advanced(8, |broker| broker == 2), None);
    known.fetched(2, 20, 8, 9, at(2));
    assert_eq!(
        known.most_advanced(8, everybody),
        Some(2),
        "the first of equals"
    );
}

#[test]
fn who_has_caught_up_joins_and_counts_at_once() {
    let mut known = InSync::new(1, &[1, 2, 3], &[1, 3], 5, at(0));
    known.fetched(3, 30, 20, 20, at(1));
    assert_eq!(known.expand(2, 20, 15), None, "never heard of");
    known.fetched(2, 20, 19, 20, at(1));
    assert_eq!(known.expand(2, 20, 15), None, "below the watermark");
    known.fetched(2, 20, 20, 22, at(2));
    assert_eq!(
        known.expand(2, 20, 21),
        None,
        "has not all of older leaders"
    );
    let proposal = known.expand(2, 20, 15).expect("caught up");
    let members: Vec<_> = proposal
        .isr
        .iter()
        .map(|m| (m.broker, m.broker_epoch))
        .collect();
    assert_eq!(members, [(1, -1), (3, 30), (2, 20)]);
    known.fetched(3, 30, 22, 22, at(3));
    assert_eq!(
        known.minimum(22),
        Some(20),
        "the controller may have written it"
    );
    known.refused(4);
    assert_eq!(known.minimum(22), Some(20), "an answer to another proposal");
    known.refused(5);
    assert_eq!(known.minimum(22), Some(22));
    assert!(known.expand(2, 20, 15).is_some(), "asked again");
}

#[test]
fn a_reassignment_keeps_what_is_known() {
    let mut known = three();
    known.fetched(2, 20, 10, 10, at(1));
    known.set_replicas(&[1, 2, 4]);
    assert_eq!(known.end_of(2), Some(10));
    assert_eq!(known.fetched(3, 30, 10, 10, at(2)), Claim::Stranger);
    assert_eq!(known.fetched(4, 40, 3, 10, at(2)), Claim::Noted);
}

/// Events between a leader and the controller.
#[derive(Debug, Clone)]
enum Step {
    Append(i64),
    Fetch {
        broker: i32,
        up_to: i64,
    },
    Expand(i32),
    Shrink,
    /// The controller accepts the proposal, and its response arrives.
    Take,
    /// The controller accepts the proposal; its response is lost.
    TakeSilently,
    Refuse,
    /// The leader receives the state that the controller has written.
    Hear,
    Time(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..5i64).prop_map(Step::Append),
        (2..5i32, 0..40i64).prop_map(|(broker, up_to)| Step::Fetch { broker, up_to }),
        (2..5i32).prop_map(Step::Expand),
        Just(Step::Shrink),
        Just(Step::Take),
        Just(Step::TakeSilently),
        Just(Step::Refuse),
        Just(Step::Hear),
        (1..20_000u64).prop_map(Step::Time),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    /// Every broker that the controller may elect (a member of the written ISR) has all committed records.
    #[test]
    fn every_member_of_the_written_set_holds_what_is_committed(steps in steps()) {
        let mut known = InSync::new(1, &[1, 2, 3, 4], &[1, 2, 3], 0, at(0));
        let (mut written, mut version) = (vec![1, 2, 3], 0);
        let mut ends = std::collections::BTreeMap::from([(1, 0), (2, 0), (3, 0), (4, 0)]);
        let (mut watermark, mut now) = (0, 0u64);
        let mut under_way: Option<Proposal> = None;
        for step in steps {
            match step {
                Step::Append(count) => *ends.get_mut(&1).unwrap() += count,
                Step::Fetch { broker, up_to } => {
                    let leader_end = ends[&1];
                    let end = ends.get_mut(&broker).unwrap();
                    *end = (*end).max(up_to.min(leader_end));
                    known.fetched(broker, 7, *end, leader_end, at(now));
                }
                Step::Expand(broker) => {
                    if let Some(proposal) = known.expand(broker, watermark, 0) {
                        under_way = Some(proposal);
                    }
                }
                Step::Shrink => {
                    if let Some(proposal) = known.shrink(ends[&1], at(now), LAG) {
                        under_way = Some(proposal);
                    }
                }
                Step::Take | Step::TakeSilently => {
                    if let Some(proposal) = under_way.take()
                        && proposal.version == version
                    {
                        written = proposal.isr.iter().map(|member| member.broker).collect();
                        version += 1;
                        if matches!(step, Step::Take) {
                            known.written(&written, version);
                        }
                    }
                }
                Step::Refuse => {
                    if let Some(proposal) = under_way.take() {
                        known.refused(proposal.version);
                    }
                }
                Step::Hear => { known.written(&written, version); }
                Step::Time(ms) => now += ms,
            }
            if let Some(minimum) = known.minimum(ends[&1]) {
                watermark = watermark.max(minimum);
            }
            for broker in &written {
                prop_assert!(ends[broker] >= watermark, "broker {broker} of {written:?} lacks what is committed");
            }
        }
    }
}
