//! Elections, votes and leadership.

use pybroker_model::Uuid;
use pybroker_quorum::{
    Answer, Ask, EpochEnd, Error, Event, FetchResult, LogIndex, QuorumState, ReplicaKey, RoleName,
    SnapshotHeader, Timeouts,
};

use crate::replica::{Replica, TOPIC, key, vote, voters};

#[test]
fn only_voter_elects_itself_and_names_the_topic() {
    let mut replica = Replica::new(1, voters(1));
    assert_eq!(replica.quorum.role(), RoleName::Candidate);
    assert!(!replica.quorum.is_leader(), "its vote is not on disk");
    replica.write();
    assert!(replica.quorum.is_leader());
    assert_eq!(replica.quorum.state().topic_id, Some(TOPIC));
    // Three records: the leader change, the voters and the topic's id.
    assert_eq!(replica.quorum.high_watermark(), 3);
}

#[test]
fn vote_is_answered_after_it_is_on_disk() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, vote(1, 0, 0, false));
    assert_eq!(replica.granted(1), None);
    replica.write();
    assert_eq!(replica.granted(1), Some(true));
}

#[test]
fn vote_survives_a_crash() {
    let state = QuorumState {
        epoch: 1,
        voted: Some(key(2)),
        ..QuorumState::default()
    };
    let log = LogIndex::new(&SnapshotHeader::bootstrap(voters(3)));
    let mut replica = Replica::with(1, state, log);
    replica.ask(1, 3, 1, Uuid::METADATA, vote(1, 0, 9, false));
    replica.ask(2, 2, 1, Uuid::METADATA, vote(1, 0, 9, false));
    replica.write();
    assert_eq!(
        (replica.granted(1), replica.granted(2)),
        (Some(false), Some(true))
    );
}

#[test]
fn vote_for_a_lost_disk_is_refused() {
    let mut replica = Replica::new(1, voters(3));
    let lost = ReplicaKey {
        id: 1,
        directory: Uuid::from_u128(5),
    };
    let last = EpochEnd::default();
    replica.ask(
        1,
        2,
        1,
        Uuid::METADATA,
        Ask::Vote {
            voter: Some(lost),
            last,
            pre_vote: false,
        },
    );
    assert_eq!(replica.error(1), Some(Error::InvalidVoterKey));
    assert_eq!(replica.quorum.state().epoch, 0);
}

#[test]
fn version_0_vote_without_a_directory_id_is_answered() {
    let mut replica = Replica::new(1, voters(3));
    let last = EpochEnd::default();
    replica.ask(
        1,
        2,
        1,
        Uuid::METADATA,
        Ask::Vote {
            voter: None,
            last,
            pre_vote: false,
        },
    );
    replica.write();
    assert_eq!(replica.granted(1), Some(true));
}

#[test]
fn election_begins_with_pre_votes_in_the_same_epoch() {
    let mut replica = Replica::new(1, voters(3));
    replica.wait(2500);
    assert_eq!(
        (replica.quorum.role(), replica.quorum.state().epoch),
        (RoleName::Prospective, 0)
    );
    replica.grant_votes();
    assert_eq!(replica.quorum.state().epoch, 1);
}

#[test]
fn leader_without_a_majority_resigns() {
    let mut replica = Replica::new(1, voters(3));
    replica.elect();
    replica.step(Event::Propose {
        proposal: 5,
        records: 1,
        data: 50,
    });
    replica.wait(1000);
    replica.fetched_by(1, 2);
    replica.wait(1000);
    assert!(replica.quorum.is_leader());
    replica.wait(600);
    assert_eq!(replica.quorum.role(), RoleName::Resigned);
}

#[test]
fn refused_leader_is_given_up_before_its_time() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    replica.write();
    replica.ask(2, 3, 1, Uuid::METADATA, vote(1, 0, 0, true));
    replica.step(Event::Refused { peer: 2 });
    replica.wait(Timeouts::default().backoff_max_ms);
    assert_eq!(replica.quorum.role(), RoleName::Prospective);
    replica.ask(3, 3, 1, Uuid::METADATA, vote(1, 0, 0, true));
    assert_eq!(replica.granted(3), Some(true));
}

#[test]
fn leader_that_resigned_is_not_followed_again_in_its_epoch() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    let preferred_successors = vec![3, 1];
    replica.ask(
        2,
        2,
        1,
        Uuid::METADATA,
        Ask::EndQuorumEpoch {
            preferred_successors,
        },
    );
    // The former leader sent this request before it resigned.
    replica.ask(3, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    replica.answer(3, 0, 1, Some(2), Answer::Empty);
    assert_eq!(replica.quorum.role(), RoleName::Unattached);
    replica.ask(4, 3, 2, Uuid::METADATA, Ask::BeginQuorumEpoch);
    assert_eq!(replica.quorum.role(), RoleName::Follower);
}

#[test]
fn pre_vote_is_refused_while_the_leader_answers() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    replica.write();
    let correlation = replica
        .sent()
        .last()
        .map_or(0, |(_, correlation, _)| *correlation);
    let fetched = FetchResult::Batches(Vec::new());
    replica.answer(
        2,
        correlation,
        1,
        Some(2),
        Answer::Fetch {
            high_watermark: 0,
            fetched,
        },
    );
    replica.ask(2, 3, 1, Uuid::METADATA, vote(1, 0, 0, true));
    assert_eq!(replica.granted(2), Some(false));
}
