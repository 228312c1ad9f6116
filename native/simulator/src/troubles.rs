//! The start and end of each fault.

use pybroker_quorum::{Event, RoleName, VoterSet};

use crate::disk::SimulatedDisk;
use crate::metadata_log::Contents;
use crate::network::Micros;
use crate::oracle::Violation;
use crate::plan::{MILLISECOND, PlannedTrouble, Trouble};
use crate::random::Random;
use crate::world::{SimulatedEvent, World, new_key};

type Verdict = Result<(), Violation>;

impl World {
    pub(crate) fn trouble(&mut self, trouble: PlannedTrouble) -> Verdict {
        let mut random = Random::new(trouble.seed, 7);
        let node = random.index(self.nodes.len());
        let until = self.now + trouble.lasts;
        self.tell(|| format!("{} at {node} until {until}", trouble.kind));
        match trouble.kind {
            Trouble::Crash => self.crash(node, "by a fault"),
            Trouble::CrashAtWrite => self.nodes[node].dies_in = Some(random.between(1, 20)),
            Trouble::PowerCut => {
                (0..self.nodes.len()).for_each(|node| self.crash(node, "by a power cut"))
            }
            Trouble::Pause => self.pause(node, until),
            Trouble::CutOff => self.cut_off(node, trouble),
            Trouble::CutLeader => self.cut_off(self.leader().unwrap_or(node), trouble),
            Trouble::OneWay => {
                let to = (node + random.between(1, self.nodes.len() as u64 - 1) as usize)
                    % self.nodes.len();
                self.network.cut(node, to);
                let cut = PlannedTrouble {
                    seed: (node * 64 + to) as u64,
                    ..trouble
                };
                self.at(until, SimulatedEvent::TroubleOver(cut));
            }
            Trouble::Partition => {
                let groups = random.bits();
                self.partition(groups, true);
                self.at(
                    until,
                    SimulatedEvent::TroubleOver(PlannedTrouble {
                        seed: groups,
                        ..trouble
                    }),
                );
            }
            Trouble::Loss => {
                self.network.loss_percent = random.between(1, 30);
                self.network.duplicate_percent = random.between(1, 30);
                self.at(until, SimulatedEvent::TroubleOver(trouble));
            }
            Trouble::Delay => {
                self.network.delay_max = random.between(2, 400) * MILLISECOND;
                self.at(until, SimulatedEvent::TroubleOver(trouble));
            }
            Trouble::SlowDisk => {
                self.nodes[node].slowness = random.between(2, 300);
                let slow = PlannedTrouble {
                    seed: node as u64,
                    ..trouble
                };
                self.at(until, SimulatedEvent::TroubleOver(slow));
            }
            Trouble::DiskError => self.nodes[node].disk.fails = true,
            Trouble::DiskFull => {
                self.nodes[node].disk.set_full(true);
                let full = PlannedTrouble {
                    seed: node as u64,
                    ..trouble
                };
                self.at(until, SimulatedEvent::TroubleOver(full));
            }
            Trouble::ClockJump => {
                self.nodes[node].clock.jump(random.between(1, 5_000));
                self.forget_hearing(node);
                return self.step(node, Event::Time);
            }
            Trouble::ClockRate => {
                let rate = random.between(80, 125) as f64 / 100.0;
                self.nodes[node].clock.set_rate(self.now, rate);
            }
            Trouble::VoterCount => {
                let most = self.nodes.len().min(5) as u64;
                self.voters_wanted = random.between(1, most) as usize;
            }
            Trouble::Transfer => return self.transfer(&mut random),
            Trouble::SwapDisk => self.swap_disk(node),
            Trouble::Refusal => return self.refuse_falsely(node),
            Trouble::Probe => return self.probe(node, &mut random),
            Trouble::Snapshot => return self.snapshot(node),
        }
        Ok(())
    }

    /// End a fault. Its `seed` determines the node, link or partition that the start of the fault selected.
    pub(crate) fn trouble_over(&mut self, trouble: PlannedTrouble) {
        let place = trouble.seed as usize;
        match trouble.kind {
            Trouble::CutOff | Trouble::CutLeader => {
                self.each_link_of(place, crate::network::Network::mend)
            }
            Trouble::OneWay => self.network.mend(place / 64, place % 64),
            Trouble::Partition => self.partition(trouble.seed, false),
            Trouble::Loss | Trouble::Delay => self.network.calm(),
            Trouble::SlowDisk => self.nodes[place].slowness = 1,
            Trouble::DiskFull => self.nodes[place].disk.set_full(false),
            _ => {}
        }
    }

    fn pause(&mut self, node: usize, until: Micros) {
        let place = &mut self.nodes[node];
        place.paused_until = until.max(place.paused_until);
        place.heard_leader = None;
    }

    fn forget_hearing(&mut self, node: usize) {
        self.nodes[node].heard_leader = None;
    }

    fn each_link_of(
        &mut self,
        node: usize,
        change: impl Fn(&mut crate::network::Network, usize, usize),
    ) {
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            change(&mut self.network, node, other);
            change(&mut self.network, other, node);
        }
    }

    fn cut_off(&mut self, node: usize, trouble: PlannedTrouble) {
        self.each_link_of(node, crate::network::Network::cut);
        let cut = PlannedTrouble {
            seed: node as u64,
            ..trouble
        };
        self.at(self.now + trouble.lasts, SimulatedEvent::TroubleOver(cut));
    }

    fn partition(&mut self, groups: u64, cuts: bool) {
        for one in 0..self.nodes.len() {
            for other in
                (0..self.nodes.len()).filter(|&other| (groups >> other & 1) != (groups >> one & 1))
            {
                match cuts {
                    true => self.network.cut(one, other),
                    false => self.network.mend(one, other),
                }
            }
        }
    }

    fn transfer(&mut self, random: &mut Random) -> Verdict {
        let Some(leader) = self
            .leader()
            .filter(|&leader| self.nodes[leader].paused_until <= self.now)
        else {
            return Ok(());
        };
        let ids: Vec<i32> = self.nodes[leader]
            .disk
            .cached
            .voters()
            .iter()
            .map(|voter| voter.id)
            .collect();
        let successor = ids.get(random.index(ids.len().max(1))).copied();
        self.step(leader, Event::Resign { successor })
    }

    /// Give a node an empty disk, unless a voter set that some replica may still use would lose its majority.
    fn swap_disk(&mut self, node: usize) {
        let key = self.nodes[node].key();
        let survives = |voters: &VoterSet| {
            let left = voters
                .iter()
                .filter(|&voter| voter != key && self.node_of(voter).is_some());
            voters.is_empty() || left.count() >= voters.majority()
        };
        let sets = |log: &Contents| {
            let latest = survives(log.voters()) && survives(&log.start_header.voters);
            let records = log
                .entries
                .iter()
                .filter_map(|entry| match &entry.batch.body {
                    pybroker_quorum::Body::Voters(voters) => Some(voters),
                    _ => None,
                });
            let mut records: Vec<_> = records.collect();
            let recent = records.split_off(records.len().saturating_sub(3));
            latest && recent.into_iter().all(survives)
        };
        if !self
            .nodes
            .iter()
            .all(|node| sets(&node.disk.cached) && sets(&node.disk.durable))
        {
            return;
        }
        self.tell(|| format!("{node} gets an empty disk"));
        self.crash(node, "without its disk");
        let key = new_key(node, &mut self.ids);
        self.nodes[node].disk = SimulatedDisk::new(key, VoterSet::empty());
        self.nodes[node].slowness = 1;
    }

    fn refuse_falsely(&mut self, node: usize) -> Verdict {
        let place = &self.nodes[node];
        let follows = place
            .quorum
            .as_ref()
            .filter(|quorum| quorum.role() == RoleName::Follower);
        let Some(peer) = follows.and_then(|quorum| quorum.state().leader) else {
            return Ok(());
        };
        if place.paused_until > self.now {
            return Ok(());
        }
        self.forget_hearing(node);
        self.step(node, Event::Refused { peer })
    }
}
