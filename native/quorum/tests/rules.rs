//! Rules that one replica keeps, each with as few events as it takes.

use pybroker_model::Uuid;
use pybroker_quorum::{
    Action, Answer, Ask, Batch, Body, Decision, EpochEnd, Error, Event, Fetched, LogIndex, Quorum,
    QuorumState, Refusal, ReplicaKey, Request, Response, RoleName, Settings, SnapshotHeader,
    Timeouts, VoterSet,
};

const CLUSTER: Uuid = Uuid::from_u128(70);
const TOPIC: Uuid = Uuid::from_u128(71);

fn key(id: i32) -> ReplicaKey {
    ReplicaKey {
        id,
        directory: Uuid::from_u128(100 + id as u128),
    }
}

fn voters(count: i32) -> VoterSet {
    VoterSet::new((1..=count).map(key))
}

/// A replica with what happened to it.
struct Replica {
    quorum: Quorum<u64>,
    now: u64,
    actions: Vec<Action<u64>>,
}

impl Replica {
    fn new(id: i32, voters: VoterSet) -> Self {
        let log = LogIndex::new(&SnapshotHeader::bootstrap(voters));
        Self::with(id, QuorumState::default(), log)
    }

    fn with(id: i32, state: QuorumState, log: LogIndex) -> Self {
        let settings = Settings {
            key: key(id),
            cluster_id: CLUSTER,
            bootstrap: vec![1, 2, 3],
            new_topic_id: TOPIC,
            timeouts: Timeouts::default(),
            seed: 7,
            #[cfg(feature = "planted")]
            fault: None,
        };
        let mut replica = Self {
            quorum: Quorum::new(settings, state, log, 0),
            now: 0,
            actions: Vec::new(),
        };
        replica.step(Event::Time);
        replica
    }

    fn step(&mut self, event: Event<u64>) {
        self.quorum.step(self.now, event, &mut self.actions);
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.step(Event::Time);
    }

    /// All writes and flushes so far are done, and those that follow from them.
    fn write(&mut self) {
        for index in 0.. {
            let event = match self.actions.get(index) {
                None => break,
                Some(&Action::WriteState { ticket, .. }) => Event::StateWritten { ticket },
                Some(&Action::Flush { ticket }) => Event::Flushed { ticket },
                _ => continue,
            };
            self.step(event);
        }
    }

    fn ask(&mut self, handle: u64, sender: i32, epoch: i32, topic_id: Uuid, ask: Ask) {
        let request = Request {
            cluster_id: CLUSTER,
            topic_id,
            epoch,
            sender: key(sender),
            ask,
        };
        self.step(Event::Request { handle, request });
    }

    fn answer(
        &mut self,
        peer: i32,
        correlation: u64,
        epoch: i32,
        leader: Option<i32>,
        answer: Answer<u64>,
    ) {
        let response = Response {
            error: Error::None,
            epoch,
            leader,
            answer,
        };
        self.step(Event::Response {
            peer,
            correlation,
            response,
        });
    }

    fn response(&self, handle: u64) -> Option<&Response<u64>> {
        self.actions.iter().find_map(|action| match action {
            Action::Respond {
                handle: known,
                response,
            } if *known == handle => Some(response),
            Action::RespondWithBatches {
                handle: known,
                response,
                ..
            } if *known == handle => Some(response),
            _ => None,
        })
    }

    fn error(&self, handle: u64) -> Option<Error> {
        self.response(handle).map(|response| response.error)
    }

    fn granted(&self, handle: u64) -> Option<bool> {
        self.response(handle)
            .map(|response| response.answer == Answer::Vote { granted: true })
    }

    /// The requests that were sent: to whom, correlation, question.
    fn sent(&self) -> Vec<(i32, u64, Ask)> {
        let sent = self.actions.iter().filter_map(|action| match action {
            Action::Send {
                peer,
                correlation,
                request,
            } => Some((*peer, *correlation, request.ask.clone())),
            _ => None,
        });
        sent.collect()
    }

    fn decision(&self, wanted: u64) -> Option<Decision> {
        self.actions.iter().find_map(|action| match action {
            Action::Decide { proposal, decision } if *proposal == wanted => Some(*decision),
            _ => None,
        })
    }

    /// Grants every vote and pre-vote that is asked for, until this replica leads.
    fn elect(&mut self) {
        self.wait(2500);
        self.grant_votes();
    }

    fn grant_votes(&mut self) {
        for _ in 0..2 {
            self.write();
            let epoch = self.quorum.state().epoch;
            for (peer, correlation, ask) in self.sent() {
                if matches!(ask, Ask::Vote { .. }) {
                    self.answer(
                        peer,
                        correlation,
                        epoch,
                        None,
                        Answer::Vote { granted: true },
                    );
                }
            }
        }
        assert!(self.quorum.is_leader());
        self.write();
    }

    /// Another voter fetches from the end of this log.
    fn fetched_by(&mut self, handle: u64, sender: i32) {
        let (from, epoch) = (self.quorum.log().last(), self.quorum.state().epoch);
        self.fetch(handle, sender, epoch, TOPIC, from);
    }

    fn fetch(&mut self, handle: u64, sender: i32, epoch: i32, topic_id: Uuid, from: EpochEnd) {
        self.ask(
            handle,
            sender,
            epoch,
            topic_id,
            Ask::Fetch {
                from,
                high_watermark: 0,
            },
        );
    }
}

fn vote(voter: i32, epoch: i32, offset: i64, pre_vote: bool) -> Ask {
    let last = EpochEnd { epoch, offset };
    Ask::Vote {
        voter: Some(key(voter)),
        last,
        pre_vote,
    }
}

#[test]
fn only_voter_elects_itself_and_names_the_topic() {
    let mut replica = Replica::new(1, voters(1));
    assert_eq!(replica.quorum.role(), RoleName::Candidate);
    assert!(!replica.quorum.is_leader(), "its vote is not on disk");
    replica.write();
    assert!(replica.quorum.is_leader());
    assert_eq!(replica.quorum.state().topic_id, Some(TOPIC));
    // The leader change, the voters, the topic's id.
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
    // An observer and a voter's lost disk do not count.
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
fn sentinel_is_accepted_up_to_the_topic_ids_record() {
    let mut replica = Replica::new(1, voters(1));
    replica.write();
    let epoch = replica.quorum.state().epoch;
    let record = replica
        .quorum
        .log()
        .topic_id()
        .map_or(-1, |(offset, _)| offset);
    let (before, behind) = (
        EpochEnd {
            epoch,
            offset: record,
        },
        replica.quorum.log().last(),
    );
    replica.fetch(1, 2, epoch, Uuid::METADATA, before);
    replica.fetch(2, 3, epoch, Uuid::METADATA, behind);
    replica.fetch(3, 4, epoch, Uuid::from_u128(8), before);
    assert_eq!(replica.error(1), Some(Error::None));
    assert_eq!(replica.error(2), Some(Error::UnknownTopicId));
    assert_eq!(replica.error(3), Some(Error::UnknownTopicId));
    replica.ask(4, 2, epoch, Uuid::METADATA, vote(1, epoch, record, true));
    replica.ask(
        5,
        2,
        epoch,
        Uuid::METADATA,
        vote(1, epoch, record + 1, true),
    );
    assert_eq!(replica.error(4), Some(Error::None));
    assert_eq!(replica.error(5), Some(Error::UnknownTopicId));
}

#[test]
fn sentinel_behind_the_record_on_a_diverging_log_is_told_where() {
    let mut replica = Replica::new(1, voters(1));
    replica.write();
    let epoch = replica.quorum.state().epoch;
    replica.fetch(
        1,
        2,
        epoch,
        Uuid::METADATA,
        EpochEnd {
            epoch: 0,
            offset: 40,
        },
    );
    let diverging = EpochEnd {
        epoch: 0,
        offset: 0,
    };
    let fetched = Fetched::Diverging(diverging);
    let answer = replica.response(1).map(|response| response.answer.clone());
    assert_eq!(
        answer,
        Some(Answer::Fetch {
            high_watermark: 3,
            fetched
        })
    );
}

#[test]
fn truncation_forgets_the_topic_id() {
    let mut replica = Replica::new(1, voters(3));
    replica.ask(1, 2, 1, Uuid::METADATA, Ask::BeginQuorumEpoch);
    replica.write();
    let fetch = |replica: &Replica| {
        replica
            .sent()
            .last()
            .map(|(_, correlation, _)| *correlation)
            .unwrap_or(0)
    };
    let batch = Batch {
        base_offset: 0,
        records: 1,
        epoch: 1,
        body: Body::TopicId(TOPIC),
        encoded: None,
    };
    let fetched = Fetched::Batches(vec![batch]);
    let correlation = fetch(&replica);
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
    replica.write();
    assert!(replica.quorum.log().topic_id().is_some());
    assert_eq!(replica.quorum.state().topic_id, None, "it is not committed");
    let fetched = Fetched::Diverging(EpochEnd {
        epoch: 0,
        offset: 0,
    });
    let correlation = fetch(&replica);
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
    assert_eq!(replica.quorum.log().topic_id(), None);
}

#[test]
fn other_clusters_are_refused() {
    let mut replica = Replica::new(1, voters(3));
    let request = Request {
        cluster_id: Uuid::from_u128(1000),
        topic_id: Uuid::METADATA,
        epoch: 9,
        sender: key(2),
        ask: Ask::BeginQuorumEpoch,
    };
    replica.step(Event::Request { handle: 1, request });
    assert_eq!(replica.error(1), Some(Error::InconsistentClusterId));
    assert_eq!(replica.quorum.state().epoch, 0);
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
    // Sent before it resigned.
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
    let fetched = Fetched::Batches(Vec::new());
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
        fetched: Fetched::Snapshot(id),
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

#[test]
fn leader_knows_how_far_replicas_are() {
    let mut replica = Replica::new(1, voters(3));
    replica.elect();
    let epoch = replica.quorum.state().epoch;
    let fetch = |replica: &mut Replica, handle, offset| {
        let ask = Ask::Fetch {
            from: EpochEnd { epoch, offset },
            high_watermark: 0,
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
    // It has what the leader had at its last fetch, and the leader has more now.
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
