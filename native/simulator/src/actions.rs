//! Execution of a state machine's actions; the oracle checks each of them.

use pybroker_quorum::{
    Action, Answer, Ask, Body, Decision, Error, Event, FetchResult, QuorumState, Request, Response,
    RoleName, Transition,
};

use crate::network::Micros;
use crate::oracle::{Oracle, Violation, require};
use crate::world::{SimulatedEvent, Waiter, World};

/// Maximum number of batches in a response.
const BATCHES_MAX: usize = 30;
/// First number of voter changes; proposals of records have lower numbers.
pub(crate) const VOTER_CHANGES: u64 = 1 << 40;

type Verdict = Result<(), Violation>;

impl World {
    /// Let a process handle an event and execute the actions.
    pub(crate) fn step(&mut self, node: usize, event: Event<u64>) -> Verdict {
        let mut actions = Vec::new();
        let place = &mut self.nodes[node];
        let Some(quorum) = &mut place.quorum else {
            return Ok(());
        };
        quorum.step(place.clock.now_ms(self.now), event, &mut actions);
        let life = place.life;
        let changes_log = actions.iter().any(|action| match action {
            Action::Append(batches) => batches
                .iter()
                .any(|batch| !matches!(batch.body, Body::Data(_))),
            Action::Truncate(_) | Action::Install(_) => true,
            _ => false,
        });
        self.act(node, actions)?;
        if changes_log && self.nodes[node].life == life {
            self.check_log(node)?;
        }
        self.snapshot_if_due(node)?;
        self.schedule_timer(node);
        Ok(())
    }

    fn schedule_timer(&mut self, node: usize) {
        let place = &mut self.nodes[node];
        let Some(quorum) = &place.quorum else {
            return;
        };
        let deadline = quorum.deadline();
        if deadline == u64::MAX {
            return;
        }
        let at = place.clock.when(self.now, deadline).max(self.now + 100);
        if at < place.timer_at {
            place.timer_at = at;
            place.timer += 1;
            let (life, number) = (place.life, place.timer);
            self.at(at, SimulatedEvent::Timer { node, life, number });
        }
    }

    fn act(&mut self, node: usize, actions: Vec<Action<u64>>) -> Verdict {
        let life = self.nodes[node].life;
        for action in actions {
            self.do_action(node, action)?;
            if self.nodes[node].life != life {
                return Ok(());
            }
        }
        Ok(())
    }

    fn do_action(&mut self, node: usize, action: Action<u64>) -> Verdict {
        match action {
            Action::Send {
                peer,
                correlation,
                request,
            } => self.sends(node, peer, correlation, request),
            Action::Respond { handle, response } => self.responds(node, handle, response),
            Action::RespondWithBatches {
                handle,
                mut response,
                from,
                to,
            } => {
                let batches = self.nodes[node].disk.read(from, to, BATCHES_MAX);
                if let Answer::Fetch { fetched, .. } = &mut response.answer {
                    *fetched = FetchResult::Batches(batches);
                }
                self.responds(node, handle, response)
            }
            Action::RespondWithSnapshot {
                handle,
                mut response,
                id,
            } => {
                let snapshot = self.nodes[node].disk.snapshot();
                match snapshot.header.id == id {
                    true if self.random.percent(30) => response.answer = Answer::SnapshotPart,
                    true => response.answer = Answer::Snapshot(snapshot.clone()),
                    false => response.error = Error::SnapshotNotFound,
                }
                self.responds(node, handle, response)
            }
            Action::Decide { proposal, decision } => self.decided(proposal, decision),
            Action::Become(transition) => self.becomes(node, transition),
            Action::Commit(high_watermark) => self.commits(node, high_watermark),
            write => self.writes(node, write),
        }
    }

    /// Count a write; return whether the process dies at it.
    pub(crate) fn dies_at_write(&mut self, node: usize) -> bool {
        let Some(left) = &mut self.nodes[node].dies_in else {
            return false;
        };
        *left = left.saturating_sub(1);
        // In the other half of the cases the process dies after the write, when `dies_in` is `Some(0)`.
        let dies = *left == 0 && self.random.percent(50);
        if dies {
            self.crash(node, "at a write");
        }
        dies
    }

    fn writes(&mut self, node: usize, action: Action<u64>) -> Verdict {
        if self.dies_at_write(node) {
            return Ok(());
        }
        let place = &mut self.nodes[node];
        let life = place.life;
        let mut failed = false;
        match action {
            Action::Append(batches) => {
                let before = place.disk.cached.entries.len();
                failed = place.disk.append(&batches).is_err();
                let key = place.key();
                let log = &place.disk.cached;
                let last = before
                    .checked_sub(1)
                    .and_then(|index| log.entries.get(index));
                let mut epoch = last.map_or(log.start.epoch, |entry| entry.batch.epoch);
                for entry in &log.entries[before..] {
                    self.oracle.appends(key, entry)?;
                    Oracle::begins_epoch(entry, epoch)?;
                    epoch = entry.batch.epoch;
                }
                self.check_appended_voters(node, &batches)?;
            }
            Action::Truncate(end) => {
                let applied = place.applied;
                failed = place.disk.truncate(end).is_err();
                require!(
                    end >= applied,
                    "what is committed is not cut off",
                    "node {node}: {end} < {applied}"
                );
            }
            Action::Install(snapshot) => {
                let (key, header) = (place.key(), snapshot.header.clone());
                self.oracle
                    .has_committed(key, header.id.offset, snapshot.content)?;
                place.applied = header.id.offset;
                failed = place.disk.install(snapshot).is_err();
                self.coverage.installed += 1;
            }
            Action::Flush { ticket } => {
                place.disk.begin_flush(ticket);
                let at = self.now + self.disk_time(node);
                self.at(at, SimulatedEvent::Flushed { node, life, ticket });
            }
            Action::WriteState { ticket, state } => {
                self.check_state(node, state)?;
                self.nodes[node].disk.begin_state(ticket, state);
                let at = self.now + self.disk_time(node);
                self.at(at, SimulatedEvent::StateWritten { node, life, ticket });
            }
            _ => {}
        }
        if self.nodes[node].dies_in == Some(0) {
            self.crash(node, "after a write");
        } else if failed {
            if self.nodes[node].disk.is_full() {
                self.step(node, Event::Resign { successor: None })?;
            }
            self.step(node, Event::StorageFailed)?;
        }
        Ok(())
    }

    fn check_state(&self, node: usize, state: QuorumState) -> Verdict {
        self.oracle
            .knows_topic_id(self.nodes[node].key(), state.topic_id)
    }

    fn disk_time(&mut self, node: usize) -> Micros {
        self.random.between(100, 3_000) * self.nodes[node].slowness
    }

    fn sends(&mut self, node: usize, peer: i32, correlation: u64, request: Request) -> Verdict {
        let key = self.nodes[node].key();
        self.oracle.speaks(key, request.epoch);
        match &request.ask {
            Ask::Vote {
                pre_vote: false, ..
            } => self.oracle.votes(key, request.epoch, key)?,
            Ask::Fetch { .. } | Ask::FetchSnapshot { .. } => {
                self.nodes[node].fetches_from = Some((peer, correlation))
            }
            _ => {}
        }
        let Ok(to) = usize::try_from(peer) else {
            return Ok(());
        };
        let life = self.nodes[node].life;
        let (first, second) = self.network.delays(&mut self.random, node, to);
        self.tell(|| format!("{node} -> {to} {request:?} delays {first:?}"));
        for delay in [second, first].into_iter().flatten() {
            let request = Box::new(request.clone());
            let what = SimulatedEvent::Request {
                to,
                from: node,
                life,
                correlation,
                request,
            };
            self.at(self.now + delay, what);
        }
        Ok(())
    }

    fn responds(&mut self, node: usize, handle: u64, response: Response<u64>) -> Verdict {
        let Some(waiter) = self.waiters.remove(&handle) else {
            require!(
                false,
                "a request is answered once",
                "node {node}: {response:?}"
            );
            return Ok(());
        };
        if response.epoch > 0 {
            self.oracle.speaks(self.nodes[node].key(), response.epoch);
        }
        self.check_vote(node, &waiter, &response)?;
        let to = waiter.node;
        let (first, second) = self.network.delays(&mut self.random, node, to);
        self.tell(|| format!("{node} => {to} {response:?} delays {first:?}"));
        for delay in [second, first].into_iter().flatten() {
            let what = SimulatedEvent::Response {
                to,
                life: waiter.life,
                peer: node as i32,
                correlation: waiter.correlation,
                response: Box::new(response.clone()),
            };
            self.at(self.now + delay, what);
        }
        Ok(())
    }

    fn check_vote(&mut self, node: usize, waiter: &Waiter, response: &Response<u64>) -> Verdict {
        let (Some((candidate, voter, pre_vote)), Answer::Vote { granted: true }) =
            (waiter.vote, &response.answer)
        else {
            return Ok(());
        };
        let key = self.nodes[node].key();
        require!(
            voter == key,
            "a voter answers for itself",
            "{key:?} votes as {voter:?}"
        );
        if !pre_vote {
            return self.oracle.votes(key, response.epoch, candidate);
        }
        require!(
            !waiter.hears_leader,
            "a pre-vote is refused while a leader is heard",
            "{key:?} for {candidate:?}"
        );
        Ok(())
    }

    fn decided(&mut self, proposal: u64, decision: Decision) -> Verdict {
        self.tell(|| format!("proposal {proposal} {decision:?}"));
        if let Decision::Committed { end_offset } = decision {
            let is_data = proposal < VOTER_CHANGES;
            self.oracle.confirms(proposal, is_data, end_offset)?;
            if is_data {
                self.coverage.committed += 1;
                self.calm.committed |= self.calm.is_on && proposal >= self.calm.first_proposal;
            }
        }
        Ok(())
    }

    fn becomes(&mut self, node: usize, transition: Transition) -> Verdict {
        self.tell(|| format!("{node} {transition:?}"));
        *self.coverage.transitions.entry(transition).or_default() += 1;
        self.oracle.moved(transition)?;
        let place = &mut self.nodes[node];
        place.heard_leader = None;
        place.isolated_since = None;
        let key = place.key();
        let epoch = place
            .quorum
            .as_ref()
            .map_or(0, |quorum| quorum.state().epoch);
        match transition.to {
            // The epoch's first record is not in the log yet, but all committed records must be there.
            RoleName::Leader => self
                .oracle
                .leads(key, epoch, &self.nodes[node].disk.cached)?,
            RoleName::Halted => match place.disk.is_full() && self.random.percent(70) {
                true => self.wait_for_room(node),
                false => self.crash(node, "halted"),
            },
            _ => {}
        }
        Ok(())
    }
}
