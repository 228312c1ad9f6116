//! Liveness: after all faults are healed, the quorum elects a leader, commits, and brings every replica up to date.

use pybroker_quorum::Event;

use crate::oracle::{Violation, require};
use crate::plan::MILLISECOND;
use crate::world::{Calm, CalmStep, SimulatedEvent, World};

type Verdict = Result<(), Violation>;

impl World {
    pub(crate) fn calm_step(&mut self, step: CalmStep) -> Verdict {
        match step {
            CalmStep::Heal => return self.heal(),
            CalmStep::LeaderExpected => {
                let leader = self.leader();
                require!(
                    leader.is_some(),
                    "a majority that can talk has a leader",
                    "{}",
                    self.roles()
                );
                let committed = self.calm.committed;
                require!(
                    committed,
                    "a majority that can talk commits",
                    "{}",
                    self.roles()
                );
                self.calm.committed_end = self.oracle.committed_end();
            }
            CalmStep::CaughtUpExpected => {
                let end = self.calm.committed_end;
                let behind = self.nodes.iter().position(|node| node.applied < end);
                require!(
                    behind.is_none(),
                    "replicas catch up",
                    "{behind:?} is below {end}: {}",
                    self.roles()
                );
            }
            CalmStep::KillLeader => {
                let leader = self.leader();
                let voters = leader.map(|leader| self.nodes[leader].disk.cached.voters().len());
                // The dead leader's port refuses connections, so its followers need not wait for a timeout.
                if let Some(leader) = leader.filter(|_| voters.is_some_and(|voters| voters >= 3)) {
                    self.crash(leader, "in calm");
                    let place = &mut self.nodes[leader];
                    place.life += 1;
                    let life = place.life;
                    self.at(
                        self.now + 1_500 * MILLISECOND,
                        SimulatedEvent::Start { node: leader, life },
                    );
                    self.calm.killed = Some(leader);
                }
            }
            CalmStep::SuccessorExpected => {
                let successor = self.leader().is_some();
                let expected = self.calm.killed.is_some();
                require!(
                    !expected || successor,
                    "a leader that refuses is replaced at once",
                    "{}",
                    self.roles()
                );
            }
        }
        Ok(())
    }

    fn heal(&mut self) -> Verdict {
        self.tell(|| "calm".to_owned());
        self.network.heal();
        self.calm = Calm {
            is_on: true,
            first_proposal: self.last_proposal + 1,
            ..Calm::default()
        };
        for node in 0..self.nodes.len() {
            let place = &mut self.nodes[node];
            place.paused_until = place.paused_until.min(self.now);
            place.dies_in = None;
            place.slowness = 1;
            place.disk.fails = false;
            place.disk.set_full(false);
            place.clock.set_rate(self.now, 1.0);
            // The clock may have become faster since the timer was set, so reset the timer.
            place.timer_at = u64::MAX;
            let life = place.life;
            if place.quorum.is_some() {
                self.step(node, Event::Time)?;
            } else {
                let at = self.now + self.random.between(1, 300) * MILLISECOND;
                self.at(at, SimulatedEvent::Start { node, life });
            }
        }
        Ok(())
    }

    fn roles(&self) -> String {
        let roles = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| match &node.quorum {
                Some(quorum) => {
                    let (role, state, voters) = (quorum.role(), quorum.state(), quorum.voters());
                    let (log, high_watermark) = (quorum.log().last(), quorum.high_watermark());
                    let (epoch, leader) = (state.epoch, state.leader);
                    format!(
                        "{index}: {role:?} {epoch} {leader:?} {log:?} {high_watermark} {voters:?}"
                    )
                }
                None => format!("{index}: down"),
            });
        let roles: Vec<String> = roles.collect();
        roles.join("; ")
    }
}
