//! Queue of ISR proposals from the local leaders to the control plane.

use std::sync::OnceLock;

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;

use super::Proposal;

/// A proposal, with the partition and the leader epoch of the leader that makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsrProposal {
    /// The partition.
    pub tip: TopicIdPartition,
    /// Epoch of the leadership.
    pub leader_epoch: i32,
    /// The change for the controller to write.
    pub proposal: Proposal,
}

/// Proposals that wait for the control plane. Their number is bounded, because a partition makes no other proposal
/// while one is pending.
#[derive(Default)]
pub struct Proposals {
    waiting: Mutex<Vec<IsrProposal>>,
    given_up: Mutex<Vec<TopicIdPartition>>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Proposals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Proposals")
            .field("waiting", &self.waiting.lock().len())
            .finish_non_exhaustive()
    }
}

impl Proposals {
    /// Register `wake`, which is called on any thread when a proposal is waiting, and must not block. Call this once.
    pub fn on_waiting(&self, wake: Box<dyn Fn() + Send + Sync>) {
        // The control plane is the only receiver. A second callback would never be called.
        assert!(self.wake.set(wake).is_ok(), "proposals have an owner");
    }

    /// Take all waiting proposals.
    pub fn take(&self) -> Vec<IsrProposal> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Take all partitions whose leader on this broker found its own data damaged.
    pub fn take_given_up(&self) -> Vec<TopicIdPartition> {
        std::mem::take(&mut *self.given_up.lock())
    }

    pub(crate) fn give_up(&self, tip: TopicIdPartition) {
        self.given_up.lock().push(tip);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn put(&self, proposal: IsrProposal) {
        let mut waiting = self.waiting.lock();
        waiting.push(proposal);
        let first = waiting.len() == 1;
        drop(waiting);
        if let (true, Some(wake)) = (first, self.wake.get()) {
            wake();
        }
    }
}
