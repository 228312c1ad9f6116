//! Commits, flushes and failures of the disk.

use pybroker_quorum::{
    Action, Ask, Batch, Body, Decision, EpochEnd, Event, LogIndex, QuorumState, RoleName,
    SnapshotHeader, Timeouts,
};

use crate::replica::{Replica, TOPIC, key, voters};

#[test]
fn high_watermark_waits_for_a_majority_and_for_the_own_flush() {
    let mut replica = Replica::new(1, voters(3));
    replica.elect();
    replica.step(Event::Propose {
        proposal: 5,
        records: 2,
        data: 50,
    });
    let end = replica.quorum.log().end_offset();
    replica.write();
    assert_eq!(replica.quorum.high_watermark(), 0, "one of three");
    // Fetches of an observer, and of a voter with another disk, do not count.
    replica.fetched_by(1, 9);
    assert_eq!(replica.quorum.high_watermark(), 0);
    replica.fetched_by(2, 2);
    assert_eq!(replica.quorum.high_watermark(), end);
    assert_eq!(
        replica.decision(5),
        Some(Decision::Committed { end_offset: end })
    );
}

#[test]
fn entry_of_an_older_epoch_is_not_committed_by_counting() {
    let mut log = LogIndex::new(&SnapshotHeader::bootstrap(voters(3)));
    log.append(&Batch {
        base_offset: 0,
        records: 1,
        epoch: 1,
        body: Body::<u64>::TopicId(TOPIC),
        encoded: None,
    });
    let state = QuorumState {
        epoch: 1,
        ..QuorumState::default()
    };
    let mut replica = Replica::with(1, state, log);
    replica.elect();
    let epoch = replica.quorum.state().epoch;
    replica.fetch(
        1,
        2,
        epoch,
        TOPIC,
        EpochEnd {
            epoch: 1,
            offset: 1,
        },
    );
    assert_eq!(replica.quorum.high_watermark(), 0);
    replica.fetched_by(2, 2);
    assert_eq!(
        replica.quorum.high_watermark(),
        replica.quorum.log().end_offset()
    );
}

#[test]
fn leader_knows_how_far_replicas_are() {
    let mut replica = Replica::new(1, voters(3));
    replica.elect();
    let epoch = replica.quorum.state().epoch;
    let fetch = |replica: &mut Replica, handle, offset| {
        let ask = Ask::Fetch {
            from: EpochEnd { epoch, offset },
            high_watermark: 0,
            wait_ms: 300,
        };
        replica.ask(handle, 2, epoch, TOPIC, ask);
        let progress = replica.quorum.progress();
        assert_eq!((progress.len(), progress[0].key), (1, key(2)));
        (progress[0].end_offset, progress[0].caught_up_at)
    };
    let end = replica.quorum.log().end_offset();
    let begin = replica.now;
    assert_eq!(fetch(&mut replica, 1, end - 1), (end - 1, None));
    replica.now += 10;
    // The follower has caught up to the leader's log end as of its last fetch. Since then the log has grown.
    replica.step(Event::Propose {
        proposal: 1,
        records: 1,
        data: 1,
    });
    assert_eq!(fetch(&mut replica, 2, end), (end, Some(begin)));
    replica.now += 10;
    let now = replica.now;
    assert_eq!(fetch(&mut replica, 3, end + 1), (end + 1, Some(now)));
}

#[test]
fn proposals_of_one_time_share_a_flush_and_a_response() {
    let mut replica = Replica::new(1, voters(3));
    replica.elect();
    let epoch = replica.quorum.state().epoch;
    let offset = replica.quorum.log().end_offset();
    let ask = Ask::Fetch {
        from: EpochEnd { epoch, offset },
        high_watermark: i64::MAX,
        wait_ms: 300,
    };
    replica.ask(1, 2, epoch, TOPIC, ask);
    replica.actions.clear();
    let proposals = (0..3).map(|proposal| Event::Propose {
        proposal,
        records: 1,
        data: proposal,
    });
    let now = replica.now;
    replica
        .quorum
        .step_all(now, proposals, &mut replica.actions);
    let mut flushes = 0;
    for action in &replica.actions {
        match action {
            Action::Flush { .. } => flushes += 1,
            Action::RespondWithBatches { from, to, .. } => assert_eq!(to - from, 3),
            _ => {}
        }
    }
    assert_eq!(flushes, 1);
    assert!(replica.response(1).is_some());
}

#[test]
fn waiting_fetches_are_answered_when_the_owner_asks() {
    let mut replica = Replica::new(1, voters(3));
    replica.elect();
    replica.write();
    replica.fetched_by(2, 2);
    replica.write();
    let epoch = replica.quorum.state().epoch;
    let offset = replica.quorum.log().end_offset();
    let ask = Ask::Fetch {
        from: EpochEnd { epoch, offset },
        high_watermark: i64::MAX,
        wait_ms: 300,
    };
    replica.ask(7, 3, epoch, TOPIC, ask);
    assert!(replica.response(7).is_none());
    replica.step(Event::AnswerFetches);
    assert!(replica.response(7).is_some());
}

#[test]
fn storage_error_halts() {
    let mut replica = Replica::new(1, voters(1));
    replica.write();
    replica.step(Event::Propose {
        proposal: 1,
        records: 1,
        data: 1,
    });
    replica.step(Event::StorageFailed);
    assert_eq!(replica.quorum.role(), RoleName::Halted);
    assert_eq!(replica.decision(1), Some(Decision::Unknown));
    replica.fetched_by(9, 2);
    assert_eq!(replica.error(9), None);
}

/// Return the waits of the fetches that the replica has sent.
fn waits(replica: &Replica) -> Vec<(u64, u64)> {
    let sent = replica.sent().into_iter();
    sent.filter_map(|(_, correlation, ask)| match ask {
        Ask::Fetch { wait_ms, .. } => Some((correlation, wait_ms)),
        _ => None,
    })
    .collect()
}

fn follower() -> Replica {
    let mut replica = Replica::new(2, voters(3));
    replica.ask(1, 1, 1, TOPIC, Ask::BeginQuorumEpoch);
    replica.write();
    replica
}

#[test]
fn a_wait_that_ends_ends_those_that_have_lasted_half_their_time() {
    let mut replica = Replica::new(1, voters(5));
    replica.elect();
    for voter in 2..=4 {
        replica.fetched_by(voter as u64, voter);
        replica.write();
    }
    let epoch = replica.quorum.state().epoch;
    let offset = replica.quorum.log().end_offset();
    for (handle, sender) in [(12, 2), (13, 3), (14, 4)] {
        let ask = Ask::Fetch {
            from: EpochEnd { epoch, offset },
            high_watermark: i64::MAX,
            wait_ms: 300,
        };
        replica.ask(handle, sender, epoch, TOPIC, ask);
        assert!(replica.response(handle).is_none());
        replica.wait(100);
    }
    assert!(replica.response(12).is_some());
    assert!(replica.response(13).is_some());
    assert!(replica.response(14).is_none());
}

#[test]
fn a_lost_response_leaves_time_for_another_fetch() {
    let mut replica = follower();
    let timeouts = Timeouts::default();
    let (_, wait_ms) = *waits(&replica).last().unwrap();
    assert_eq!(wait_ms, timeouts.fetch_wait_ms);
    replica.actions.clear();
    let retry = wait_ms + timeouts.retry_ms;
    replica.wait(retry);
    let second = waits(&replica);
    assert_eq!(second.len(), 1);
    assert!(retry + second[0].1 < timeouts.fetch_ms);
}

#[test]
fn a_fetch_whose_connection_broke_is_repeated() {
    let mut replica = follower();
    let (correlation, _) = *waits(&replica).last().unwrap();
    replica.actions.clear();
    replica.step(Event::RequestFailed { correlation: 4711 });
    replica.wait(Timeouts::default().pause_ms);
    assert_eq!(waits(&replica), []);
    replica.step(Event::RequestFailed { correlation });
    replica.wait(Timeouts::default().pause_ms);
    assert_eq!(waits(&replica).len(), 1);
}
