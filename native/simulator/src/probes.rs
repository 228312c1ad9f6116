//! Requests that a replica must refuse, because they name another cluster, another topic, another disk or another
//! epoch. A copy of the replica answers them, so they do not change the run.

use pybroker_model::Uuid;
use pybroker_quorum::{Action, Ask, EpochEnd, Error, Event, Quorum, ReplicaKey, Request};

use crate::oracle::{Violation, require};
use crate::random::Random;
use crate::world::{World, new_key, new_uuid};

type Verdict = Result<(), Violation>;

impl World {
    /// Send a node all requests that it must refuse, and similar requests that it must accept.
    pub(crate) fn probe(&mut self, node: usize, random: &mut Random) -> Verdict {
        let place = &self.nodes[node];
        let Some(quorum) = &place.quorum else {
            return Ok(());
        };
        // Let the copy first do the work whose time has come.
        let now_ms = place.clock.now_ms(self.now);
        let mut quorum = quorum.clone();
        quorum.step(now_ms, Event::Time, &mut Vec::new());
        quorum.forget_held_messages();
        for (request, expected) in self.probes(&quorum, place.key(), random) {
            let (error, epoch) = answer_of(&quorum, now_ms, &request);
            require!(
                error == Some(expected),
                "foreign requests are refused",
                "node {node}: {error:?}, not {expected:?}, to {request:?}"
            );
            let same = expected == Error::None || epoch == quorum.state().epoch;
            require!(
                same,
                "foreign epochs are not believed",
                "node {node} to {request:?}"
            );
            self.coverage.probes += 1;
        }
        Ok(())
    }

    fn probes(
        &self,
        quorum: &Quorum<u64>,
        key: ReplicaKey,
        random: &mut Random,
    ) -> Vec<(Request, Error)> {
        let epoch = quorum.state().epoch;
        let log = quorum.log();
        let named = log.topic_id().map_or(Uuid::METADATA, |(_, id)| id);
        let long = EpochEnd {
            epoch: epoch + 5,
            offset: log.end_offset() + 100,
        };
        let vote = Ask::Vote {
            voter: Some(key),
            last: long,
            pre_vote: true,
        };
        let request = |topic_id, epoch, ask: &Ask| Request {
            cluster_id: self.cluster_id,
            topic_id,
            epoch,
            sender: ReplicaKey {
                id: 90,
                directory: Uuid::from_u128(90),
            },
            ask: ask.clone(),
        };
        let fetch = Ask::Fetch {
            from: log.last(),
            high_watermark: i64::MAX,
            wait_ms: 300,
        };
        let foreign_id = new_uuid(random);
        let mut probes = Vec::new();
        for ask in [&vote, &Ask::BeginQuorumEpoch, &fetch] {
            let mut foreign = request(named, epoch + 5, ask);
            foreign.cluster_id = foreign_id;
            probes.push((foreign, Error::InconsistentClusterId));
        }
        let lost = Ask::Vote {
            voter: Some(new_key(key.id as usize, random)),
            last: long,
            pre_vote: false,
        };
        probes.push((request(named, epoch + 5, &lost), Error::InvalidVoterKey));
        if let (Some(id), Some((record, _))) = (quorum.state().topic_id, log.topic_id()) {
            let end_epoch = Ask::EndQuorumEpoch {
                preferred_successors: Vec::new(),
            };
            for ask in [&vote, &Ask::BeginQuorumEpoch, &end_epoch] {
                probes.push((request(foreign_id, epoch + 5, ask), Error::UnknownTopicId));
            }
            probes.push((
                request(Uuid::METADATA, epoch + 5, &vote),
                Error::UnknownTopicId,
            ));
            let short = EpochEnd {
                epoch: 0,
                offset: record.min(1),
            };
            let early = Ask::Vote {
                voter: Some(key),
                last: short,
                pre_vote: true,
            };
            probes.push((request(Uuid::METADATA, epoch, &early), Error::None));
            probes.push((request(id, epoch, &early), Error::None));
        }
        if quorum.is_leader() && log.end_offset() > log.start().offset {
            probes.push((request(named, epoch - 1, &fetch), Error::FencedLeaderEpoch));
            probes.push((request(named, epoch + 1, &fetch), Error::UnknownLeaderEpoch));
            probes.push((request(foreign_id, epoch, &fetch), Error::UnknownTopicId));
            probes.push((
                request(Uuid::METADATA, epoch, &fetch),
                Error::UnknownTopicId,
            ));
        }
        probes
    }
}

/// Return the answer of a replica's copy, and the copy's epoch after it.
fn answer_of(quorum: &Quorum<u64>, now_ms: u64, request: &Request) -> (Option<Error>, i32) {
    let mut copy = quorum.clone();
    let mut actions = Vec::new();
    let request = request.clone();
    copy.step(now_ms, Event::Request { handle: 0, request }, &mut actions);
    let error = actions.iter().find_map(|action| match action {
        Action::Respond {
            handle: 0,
            response,
        } => Some(response.error),
        _ => None,
    });
    (error, copy.state().epoch)
}
