//! Voter changes, and replicas that lag.

use pybroker_model::Uuid;
use pybroker_quorum::{
    Answer, Ask, Decision, EpochEnd, Event, FetchResult, Refusal, RoleName, Timeouts,
};

use crate::replica::{Replica, key, voters};

#[test]
fn voters_change_one_at_a_time_and_after_catching_up() {
    let mut replica = Replica::new(1, voters(1));
    replica.write();
    replica.step(Event::AddVoter {
        proposal: 1,
        voter: key(2),
    });
    assert_eq!(
        replica.decision(1),
        Some(Decision::Refused(Refusal::NotCaughtUp))
    );
    replica.fetched_by(1, 2);
    replica.fetched_by(2, 3);
    replica.step(Event::AddVoter {
        proposal: 2,
        voter: key(2),
    });
    assert_eq!(replica.quorum.voters().len(), 2, "in force at once");
    replica.step(Event::AddVoter {
        proposal: 3,
        voter: key(3),
    });
    assert_eq!(
        replica.decision(3),
        Some(Decision::Refused(Refusal::NotReady))
    );
    replica.write();
    assert_eq!(replica.decision(2), None, "the new voter does not have it");
    replica.fetched_by(3, 2);
    assert!(matches!(
        replica.decision(2),
        Some(Decision::Committed { .. })
    ));
}

#[test]
fn parts_of_a_snapshot_keep_the_leader() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    replica.write();
    let asked = |replica: &Replica| replica.sent().pop().expect("a request");
    let id = EpochEnd {
        epoch: 1,
        offset: 50,
    };
    let (_, correlation, _) = asked(&replica);
    let behind = Answer::Fetch {
        high_watermark: 60,
        fetched: FetchResult::Snapshot(id),
    };
    replica.answer(2, correlation, 1, Some(2), behind);
    for _ in 0..10 {
        let (peer, correlation, ask) = asked(&replica);
        assert_eq!((peer, ask), (2, Ask::FetchSnapshot { id }));
        replica.now += Timeouts::default().fetch_ms / 2;
        replica.answer(2, correlation, 1, Some(2), Answer::SnapshotPart);
        assert_eq!(replica.quorum.role(), RoleName::Follower);
    }
}
