//! A replica to which the tests pass single events.

use pybroker_model::Uuid;
use pybroker_quorum::{
    Action, Answer, Ask, Decision, EpochEnd, Error, Event, LogIndex, Quorum, QuorumState,
    ReplicaKey, Request, Response, Settings, SnapshotHeader, Timeouts, VoterSet,
};

pub(crate) const CLUSTER: Uuid = Uuid::from_u128(70);
pub(crate) const TOPIC: Uuid = Uuid::from_u128(71);

pub(crate) fn key(id: i32) -> ReplicaKey {
    ReplicaKey {
        id,
        directory: Uuid::from_u128(100 + id as u128),
    }
}

pub(crate) fn voters(count: i32) -> VoterSet {
    VoterSet::new((1..=count).map(key))
}

/// A replica, and a record of its actions.
pub(crate) struct Replica {
    pub(crate) quorum: Quorum<u64>,
    pub(crate) now: u64,
    pub(crate) actions: Vec<Action<u64>>,
}

impl Replica {
    pub(crate) fn new(id: i32, voters: VoterSet) -> Self {
        let log = LogIndex::new(&SnapshotHeader::bootstrap(voters));
        Self::with(id, QuorumState::default(), log)
    }

    pub(crate) fn with(id: i32, state: QuorumState, log: LogIndex) -> Self {
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

    pub(crate) fn step(&mut self, event: Event<u64>) {
        self.quorum.step(self.now, event, &mut self.actions);
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.step(Event::Time);
    }

    /// Complete all pending writes and flushes, and those that their completion starts.
    pub(crate) fn write(&mut self) {
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

    pub(crate) fn ask(&mut self, handle: u64, sender: i32, epoch: i32, topic_id: Uuid, ask: Ask) {
        let request = Request {
            cluster_id: CLUSTER,
            topic_id,
            epoch,
            sender: key(sender),
            ask,
        };
        self.step(Event::Request { handle, request });
    }

    pub(crate) fn answer(
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

    pub(crate) fn response(&self, handle: u64) -> Option<&Response<u64>> {
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

    pub(crate) fn error(&self, handle: u64) -> Option<Error> {
        self.response(handle).map(|response| response.error)
    }

    pub(crate) fn granted(&self, handle: u64) -> Option<bool> {
        self.response(handle)
            .map(|response| response.answer == Answer::Vote { granted: true })
    }

    /// The sent requests: receiving node, correlation, content.
    pub(crate) fn sent(&self) -> Vec<(i32, u64, Ask)> {
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

    pub(crate) fn decision(&self, wanted: u64) -> Option<Decision> {
        self.actions.iter().find_map(|action| match action {
            Action::Decide { proposal, decision } if *proposal == wanted => Some(*decision),
            _ => None,
        })
    }

    /// Grant every requested vote and pre-vote until this replica leads.
    pub(crate) fn elect(&mut self) {
        self.wait(2500);
        self.grant_votes();
    }

    pub(crate) fn grant_votes(&mut self) {
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

    /// Let the voter `sender` fetch from the end of this log.
    pub(crate) fn fetched_by(&mut self, handle: u64, sender: i32) {
        let (from, epoch) = (self.quorum.log().last(), self.quorum.state().epoch);
        self.fetch(handle, sender, epoch, TOPIC, from);
    }

    pub(crate) fn fetch(
        &mut self,
        handle: u64,
        sender: i32,
        epoch: i32,
        topic_id: Uuid,
        from: EpochEnd,
    ) {
        self.ask(
            handle,
            sender,
            epoch,
            topic_id,
            Ask::Fetch {
                from,
                high_watermark: 0,
                wait_ms: 300,
            },
        );
    }
}

pub(crate) fn vote(voter: i32, epoch: i32, offset: i64, pre_vote: bool) -> Ask {
    let last = EpochEnd { epoch, offset };
    Ask::Vote {
        voter: Some(key(voter)),
        last,
        pre_vote,
    }
}
