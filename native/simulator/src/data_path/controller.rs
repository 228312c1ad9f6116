//! The controller: it never fails, and decides one event after the other. It elects from the ISR only.

use pybroker_replica::IsrProposal;

use super::PlantedFault;
use super::brokers::BROKERS;

/// The partition's state, as the controller writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionState {
    pub(super) leader: i32,
    pub(super) leader_epoch: i32,
    pub(super) version: i32,
    pub(super) isr: Vec<i32>,
}

#[derive(Debug)]
pub(super) struct Controller {
    fault: Option<PlantedFault>,
    /// All states, the latest last; the index is the version.
    pub(super) states: Vec<PartitionState>,
    /// Broker epochs of the registered brokers.
    registered: [Option<i64>; BROKERS],
    last_broker_epoch: i64,
    /// Which live broker an election prefers. Rotates, so that leaders change.
    preferred: usize,
}

impl Controller {
    pub(super) fn new(fault: Option<PlantedFault>) -> Self {
        let first = PartitionState {
            leader: -1,
            leader_epoch: 0,
            version: 0,
            isr: (1..=BROKERS as i32).collect(),
        };
        Self {
            fault,
            states: vec![first],
            registered: [None; BROKERS],
            last_broker_epoch: 0,
            preferred: 0,
        }
    }

    pub(super) fn state(&self) -> &PartitionState {
        &self.states[self.states.len() - 1]
    }

    /// Register a started broker and return its broker epoch. It may lack records since its last registration, so it
    /// leaves the ISR unless it is the last member.
    pub(super) fn register(&mut self, broker: i32) -> i64 {
        self.fence(broker);
        self.last_broker_epoch += 1;
        self.registered[broker as usize - 1] = Some(self.last_broker_epoch);
        if self.state().leader < 0 {
            self.elect(self.state().isr.clone());
        }
        self.last_broker_epoch
    }

    pub(super) fn is_registered(&self, broker: i32) -> bool {
        self.registered[broker as usize - 1].is_some()
    }

    /// End a broker's session.
    pub(super) fn fence(&mut self, broker: i32) {
        self.registered[broker as usize - 1] = None;
        let state = self.state();
        if !state.isr.contains(&broker) {
            return;
        }
        let mut isr = state.isr.clone();
        isr.retain(|&member| member != broker);
        if isr.is_empty() {
            isr.push(broker);
        }
        if state.leader == broker {
            self.elect(isr);
        } else if isr != state.isr {
            self.write(PartitionState {
                isr,
                ..state.clone()
            });
        }
    }

    /// Let the next live member of the ISR lead.
    pub(super) fn rotate(&mut self) {
        self.preferred += 1;
        self.elect(self.state().isr.clone());
    }

    fn elect(&mut self, isr: Vec<i32>) {
        let anyone = self.fault == Some(PlantedFault::ElectsOutsideIsr);
        let candidates = (0..BROKERS)
            .map(|at| ((at + self.preferred) % BROKERS) as i32 + 1)
            .find(|&broker| {
                self.registered[broker as usize - 1].is_some() && (anyone || isr.contains(&broker))
            });
        let leader = candidates.unwrap_or(-1);
        let state = self.state();
        let mut isr = isr;
        if leader > 0 && !isr.contains(&leader) {
            isr = vec![leader];
        }
        self.write(PartitionState {
            leader,
            leader_epoch: state.leader_epoch + 1,
            isr,
            ..state.clone()
        });
    }

    /// Decide a leader's proposal: `Some(true)` if it is written, `Some(false)` if it never will be, `None` if the state
    /// has changed since: the leader gets the newer one.
    pub(super) fn propose(&mut self, leader: i32, proposed: &IsrProposal) -> Option<bool> {
        let state = self.state().clone();
        let outdated = proposed.proposal.version != state.version;
        if leader != state.leader || proposed.leader_epoch != state.leader_epoch || outdated {
            return None;
        }
        let members = &proposed.proposal.isr;
        let eligible = members.iter().all(|member| {
            let registered = self.registered[member.broker as usize - 1];
            registered.is_some_and(|epoch| [-1, epoch].contains(&member.broker_epoch))
        });
        if eligible {
            let isr = members.iter().map(|member| member.broker).collect();
            self.write(PartitionState { isr, ..state });
        }
        Some(eligible)
    }

    fn write(&mut self, state: PartitionState) {
        let version = self.states.len() as i32;
        self.states.push(PartitionState { version, ..state });
    }
}
