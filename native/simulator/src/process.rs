//! Processes: their start, their events and their deaths.

use pybroker_quorum::{
    Answer, Ask, Event, Quorum, Request, Response, RoleName, Settings, SnapshotHeader, Timeouts,
};

use crate::network::Micros;
use crate::oracle::{Violation, require};
use crate::plan::{MILLISECOND, SECOND};
use crate::world::{SimulatedEvent, Waiter, World, new_uuid};

type Verdict = Result<(), Violation>;

impl World {
    /// Execute a scheduled event of a process or a node.
    pub(crate) fn process(&mut self, what: SimulatedEvent) -> Verdict {
        match what {
            SimulatedEvent::Request {
                to,
                from,
                life,
                correlation,
                request,
            } => self.request_arrives(to, from, life, correlation, *request),
            SimulatedEvent::Response {
                to,
                peer,
                correlation,
                response,
                ..
            } => self.response_arrives(to, peer, correlation, *response),
            SimulatedEvent::Refused { to, peer, .. } => {
                self.nodes[to].heard_leader = None;
                self.step(to, Event::Refused { peer })
            }
            SimulatedEvent::Timer { node, number, .. } => {
                if number != self.nodes[node].timer {
                    return Ok(());
                }
                self.nodes[node].timer_at = Micros::MAX;
                self.step(node, Event::Time)
            }
            SimulatedEvent::Flushed { node, ticket, .. } => self.writes_end(node, |disk| {
                disk.end_flush(ticket).map(|()| Event::Flushed { ticket })
            }),
            SimulatedEvent::StateWritten { node, ticket, .. } => self.writes_end(node, |disk| {
                disk.end_state(ticket)
                    .map(|()| Event::StateWritten { ticket })
            }),
            SimulatedEvent::Start { node, .. } => self.start(node),
            _ => Ok(()),
        }
    }

    fn writes_end(
        &mut self,
        node: usize,
        end: impl Fn(
            &mut crate::disk::SimulatedDisk,
        ) -> Result<Event<u64>, crate::metadata_log::DiskError>,
    ) -> Verdict {
        if self.dies_at_write(node) {
            return Ok(());
        }
        let event = end(&mut self.nodes[node].disk).unwrap_or(Event::StorageFailed);
        if self.nodes[node].dies_in == Some(0) {
            self.crash(node, "after a write");
            return Ok(());
        }
        self.step(node, event)
    }

    fn request_arrives(
        &mut self,
        to: usize,
        from: usize,
        life: u32,
        correlation: u64,
        request: Request,
    ) -> Verdict {
        let paused_until = self.nodes[to].paused_until;
        if paused_until > self.now {
            let request = Box::new(request);
            let what = SimulatedEvent::Request {
                to,
                from,
                life,
                correlation,
                request,
            };
            self.at(paused_until, what);
            return Ok(());
        }
        if self.nodes[to].quorum.is_none() {
            if self.network.connects(to, from) {
                let at = self.now + 300;
                self.at(
                    at,
                    SimulatedEvent::Refused {
                        to: from,
                        life,
                        peer: to as i32,
                    },
                );
            }
            return Ok(());
        }
        let vote = match request.ask {
            Ask::Vote {
                voter: Some(voter),
                pre_vote,
                ..
            } => Some((request.sender, voter, pre_vote)),
            _ => None,
        };
        if matches!(request.ask, Ask::Fetch { .. }) {
            let count = self.nodes.len();
            self.nodes[to].fetched_at.resize(count, None);
            self.nodes[to].fetched_at[from] = Some(self.now);
        }
        let place = &self.nodes[to];
        let recently = place
            .heard_leader
            .is_some_and(|at| self.now - at < 400 * MILLISECOND);
        let hears_leader = place.quorum.as_ref().is_some_and(|quorum| {
            let hears = quorum.is_leader() || (quorum.role() == RoleName::Follower && recently);
            hears && quorum.state().epoch == request.epoch
        });
        self.last_handle += 1;
        let handle = self.last_handle;
        let waiter = Waiter {
            node: from,
            life,
            correlation,
            vote,
            hears_leader,
        };
        self.waiters.insert(handle, waiter);
        self.step(to, Event::Request { handle, request })
    }

    fn response_arrives(
        &mut self,
        to: usize,
        peer: i32,
        correlation: u64,
        response: Response<u64>,
    ) -> Verdict {
        let epoch = response.epoch;
        let place = &mut self.nodes[to];
        let awaited = place
            .fetches_from
            .take_if(|fetch| *fetch == (peer, correlation))
            .is_some();
        let follows = |quorum: &Quorum<u64>| quorum.role() == RoleName::Follower;
        // After a pause the process may have given up the fetch before it sees the response.
        let paused = place.paused_until > 0 && self.now - place.paused_until < SECOND;
        let fetched = awaited
            && !paused
            && place.quorum.as_ref().is_some_and(follows)
            && matches!(response.answer, Answer::Fetch { .. });
        self.step(
            to,
            Event::Response {
                peer,
                correlation,
                response,
            },
        )?;
        let now = self.now;
        let node = &mut self.nodes[to];
        if let Some(quorum) = &node.quorum {
            // A response that refuses another cluster's request has epoch 0.
            let known = quorum.state().epoch;
            require!(
                known >= epoch,
                "a higher epoch is believed",
                "node {to} stays in {known} after {epoch}"
            );
        }
        if let Some(quorum) = &node.quorum
            && fetched
            && quorum.role() == RoleName::Follower
            && quorum.state().epoch == epoch
            && quorum.state().leader == Some(peer)
        {
            node.heard_leader = Some(now);
        }
        Ok(())
    }

    /// End a process. Its disk keeps the flushed writes and some of the unflushed ones.
    pub(crate) fn crash(&mut self, node: usize, why: &str) {
        if self.nodes[node].quorum.is_none() {
            return;
        }
        self.tell(|| format!("{node} dies {why}"));
        let damage = self.nodes[node].disk.cut_power(&mut self.random);
        self.coverage.lost += damage.lost;
        self.coverage.torn += damage.torn;
        self.coverage.flipped += damage.flipped;
        let down = self.random.between(100 * MILLISECOND, 6 * SECOND);
        self.end_process(node, down);
        // Connections break, and the port refuses new ones.
        for other in 0..self.nodes.len() {
            let fetches = self.nodes[other].fetches_from;
            let fetches = fetches.is_some_and(|(peer, _)| peer == node as i32);
            if fetches && self.network.connects_both(node, other) {
                let life = self.nodes[other].life;
                let at = self.now + self.random.between(100, 2_000);
                self.at(
                    at,
                    SimulatedEvent::Refused {
                        to: other,
                        life,
                        peer: node as i32,
                    },
                );
            }
        }
    }

    /// Stop a process whose disk is full. The disk keeps all writes, and the process opens the log again later.
    pub(crate) fn wait_for_room(&mut self, node: usize) {
        self.tell(|| format!("{node} waits for room"));
        self.nodes[node].disk.close();
        self.coverage.reopened += 1;
        let wait = self.random.between(SECOND, 3 * SECOND);
        self.end_process(node, wait);
    }

    fn end_process(&mut self, node: usize, down: Micros) {
        let place = &mut self.nodes[node];
        place.quorum = None;
        place.life += 1;
        place.dies_in = None;
        place.timer_at = Micros::MAX;
        place.paused_until = 0;
        place.fetches_from = None;
        place.isolated_since = None;
        let life = place.life;
        self.at(self.now + down, SimulatedEvent::Start { node, life });
    }

    /// Start a process with the content of its disk.
    pub(crate) fn start(&mut self, node: usize) -> Verdict {
        if self.nodes[node].quorum.is_some() {
            return Ok(());
        }
        let now = self.now;
        let settings = self.settings(node);
        let place = &mut self.nodes[node];
        let (state, log) = place.disk.recover();
        self.oracle
            .starts(place.key(), state.epoch, &place.disk.cached)?;
        self.oracle.knows_topic_id(place.key(), state.topic_id)?;
        let quorum = Quorum::new(settings, state, log, place.clock.now_ms(now));
        place.applied = quorum.high_watermark();
        place.quorum = Some(quorum);
        self.tell(|| format!("{node} starts with {state:?}"));
        self.step(node, Event::Time)
    }

    fn settings(&mut self, node: usize) -> Settings {
        let count = self.nodes.len() as i32;
        Settings {
            key: self.nodes[node].key(),
            cluster_id: self.cluster_id,
            bootstrap: (0..count).filter(|&id| id != node as i32).collect(),
            new_topic_id: new_uuid(&mut self.ids),
            timeouts: Timeouts::default(),
            seed: self.ids.bits(),
            fault: self.plan.fault,
        }
    }

    pub(crate) fn snapshot_if_due(&mut self, node: usize) -> Verdict {
        let place = &self.nodes[node];
        let Some(quorum) = &place.quorum else {
            return Ok(());
        };
        let end = place.applied.min(quorum.flushed_end());
        if end < quorum.log().snapshot().offset + place.snapshot_records {
            return Ok(());
        }
        self.snapshot(node)
    }

    /// Write a snapshot of the applied records.
    pub(crate) fn snapshot(&mut self, node: usize) -> Verdict {
        let place = &self.nodes[node];
        let Some(quorum) = &place.quorum else {
            return Ok(());
        };
        let end = place.applied.min(quorum.flushed_end());
        if place.disk.durable.chain_at(end).is_none() {
            return Ok(());
        }
        let Some(header) = quorum.snapshot_header(end) else {
            return Ok(());
        };
        if self.dies_at_write(node) {
            return Ok(());
        }
        self.check_snapshot(node, &header)?;
        let place = &mut self.nodes[node];
        let Some(start) = place.disk.write_snapshot(&header) else {
            return Ok(());
        };
        self.coverage.snapshots += 1;
        self.step(node, Event::SnapshotWritten { header, start })
    }

    fn check_snapshot(&self, node: usize, header: &SnapshotHeader) -> Verdict {
        let mut log = self.nodes[node].disk.cached.clone();
        log.truncate(header.id.offset);
        let voters = log.voters();
        let same = *voters == header.voters && log.topic_id() == header.topic_id.map(|(_, id)| id);
        require!(
            same,
            "a snapshot has its last voters",
            "{header:?}, the log has {voters:?}"
        );
        Ok(())
    }
}
