//! Clients that propose records, and an administrator that changes the voters.

use pybroker_quorum::{Event, ReplicaKey};

use crate::actions::VOTER_CHANGES;
use crate::oracle::Violation;
use crate::world::World;

type Verdict = Result<(), Violation>;

impl World {
    /// Propose a record, usually to the leader.
    pub(crate) fn propose(&mut self) -> Verdict {
        let any = self.random.index(self.nodes.len());
        let records = self.random.between(1, 3) as u32;
        let node = match self.random.percent(10) {
            true => any,
            false => self.leader().unwrap_or(any),
        };
        self.last_proposal += 1;
        let proposal = self.last_proposal;
        if self.nodes[node].paused_until > self.now {
            return Ok(());
        }
        self.step(
            node,
            Event::Propose {
                proposal,
                records,
                data: proposal,
            },
        )
    }

    /// Move the number of voters towards the wanted one; remove replicas with a lost disk first.
    pub(crate) fn administer(&mut self) -> Verdict {
        let Some(leader) = self
            .leader()
            .filter(|&leader| self.nodes[leader].paused_until <= self.now)
        else {
            return Ok(());
        };
        let voters = self.nodes[leader].disk.cached.voters().clone();
        let lost = voters.iter().find(|&voter| self.node_of(voter).is_none());
        let all: Vec<ReplicaKey> = voters.iter().collect();
        self.last_proposal += 1;
        let proposal = self.last_proposal + VOTER_CHANGES;
        let remove = |voter| Event::RemoveVoter { proposal, voter };
        if let Some(lost) = lost {
            return self.step(leader, remove(lost));
        }
        if voters.len() > self.voters_wanted {
            let voter = all[self.random.index(all.len())];
            return self.step(leader, remove(voter));
        }
        let observers = self
            .nodes
            .iter()
            .filter(|node| !voters.has_id(node.key().id));
        let observers: Vec<ReplicaKey> = observers.map(|node| node.key()).collect();
        if voters.len() < self.voters_wanted && !observers.is_empty() {
            let voter = observers[self.random.index(observers.len())];
            return self.step(leader, Event::AddVoter { proposal, voter });
        }
        Ok(())
    }
}
