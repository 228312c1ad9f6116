//! Counts of the transitions and faults in all runs.

use std::collections::BTreeMap;

use pybroker_quorum::Cause::{
    Asked, HigherEpoch, LeaderFound, LeaderRefused, LeaderResigned, Lost, OnlyVoter, Preferred,
    QuorumLost, Removed, Started, StorageFailed, TimedOut, Voted, Won,
};
use pybroker_quorum::RoleName::{
    Candidate, Follower, Halted, Leader, Prospective, Resigned, Unattached,
};
use pybroker_quorum::{Cause, RoleName, Transition};

use crate::plan::Trouble;

const fn to(from: RoleName, to: RoleName, cause: Cause) -> Transition {
    Transition { from, to, cause }
}

/// All transitions of the state machine.
pub const TRANSITIONS: &[Transition] = &[
    to(Unattached, Unattached, Started),
    to(Resigned, Resigned, Started),
    to(Unattached, Unattached, HigherEpoch),
    to(Unattached, Unattached, LeaderResigned),
    to(Unattached, Unattached, Voted),
    to(Unattached, Follower, HigherEpoch),
    to(Unattached, Follower, LeaderFound),
    to(Unattached, Prospective, TimedOut),
    to(Unattached, Prospective, Preferred),
    to(Unattached, Candidate, OnlyVoter),
    to(Unattached, Halted, StorageFailed),
    to(Prospective, Unattached, HigherEpoch),
    to(Prospective, Unattached, Voted),
    to(Prospective, Unattached, Lost),
    to(Prospective, Follower, HigherEpoch),
    to(Prospective, Follower, LeaderFound),
    to(Prospective, Follower, Lost),
    to(Prospective, Candidate, Won),
    to(Prospective, Halted, StorageFailed),
    to(Candidate, Unattached, HigherEpoch),
    to(Candidate, Follower, HigherEpoch),
    to(Candidate, Follower, LeaderFound),
    to(Candidate, Prospective, Lost),
    to(Candidate, Leader, Won),
    to(Candidate, Halted, StorageFailed),
    to(Leader, Unattached, HigherEpoch),
    to(Leader, Follower, HigherEpoch),
    to(Leader, Resigned, QuorumLost),
    to(Leader, Resigned, Removed),
    to(Leader, Resigned, Asked),
    to(Leader, Halted, StorageFailed),
    to(Follower, Unattached, HigherEpoch),
    to(Follower, Unattached, LeaderResigned),
    to(Follower, Unattached, LeaderRefused),
    to(Follower, Unattached, TimedOut),
    to(Follower, Follower, HigherEpoch),
    to(Follower, Prospective, TimedOut),
    to(Follower, Prospective, Preferred),
    to(Follower, Candidate, OnlyVoter),
    to(Follower, Halted, StorageFailed),
    to(Resigned, Unattached, HigherEpoch),
    to(Resigned, Follower, HigherEpoch),
    to(Resigned, Unattached, TimedOut),
    to(Resigned, Prospective, TimedOut),
    to(Resigned, Candidate, OnlyVoter),
    to(Resigned, Halted, StorageFailed),
];

/// Counters of runs.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// How often each transition was taken.
    pub transitions: BTreeMap<Transition, u64>,
    /// How often each kind of fault happened.
    pub troubles: BTreeMap<Trouble, u64>,
    /// Simulated minutes.
    pub minutes: u64,
    /// The smallest number of faults in a minute.
    pub troubles_min: Option<u64>,
    /// The smallest number of proposals in a minute.
    pub proposals_min: Option<u64>,
    /// Number of proposals.
    pub proposals: u64,
    /// Number of committed proposals.
    pub committed: u64,
    /// Number of events.
    pub events: u64,
    /// Number of unflushed writes that power cuts removed.
    pub lost: u64,
    /// Number of unflushed writes that power cuts left half written.
    pub torn: u64,
    /// Number of unflushed writes in which power cuts flipped bits.
    pub flipped: u64,
    /// Number of requests that replicas had to refuse.
    pub probes: u64,
    /// Number of snapshots that replicas wrote.
    pub snapshots: u64,
    /// Number of logs that were opened again after a full disk, without a crash.
    pub reopened: u64,
    /// Number of snapshots that replicas loaded from a leader.
    pub installed: u64,
}

impl Coverage {
    /// Add the counters of another run.
    pub fn add(&mut self, other: &Self) {
        for (&transition, count) in &other.transitions {
            *self.transitions.entry(transition).or_default() += count;
        }
        for (&trouble, count) in &other.troubles {
            *self.troubles.entry(trouble).or_default() += count;
        }
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        self.troubles_min = least(self.troubles_min, other.troubles_min);
        self.proposals_min = least(self.proposals_min, other.proposals_min);
        self.minutes += other.minutes;
        self.proposals += other.proposals;
        self.committed += other.committed;
        self.events += other.events;
        self.lost += other.lost;
        self.torn += other.torn;
        self.flipped += other.flipped;
        self.probes += other.probes;
        self.snapshots += other.snapshots;
        self.reopened += other.reopened;
        self.installed += other.installed;
    }

    /// Return the transitions that no run took.
    #[must_use]
    pub fn missing(&self) -> Vec<Transition> {
        let taken = |transition| self.transitions.contains_key(transition);
        TRANSITIONS
            .iter()
            .filter(|transition| !taken(transition))
            .copied()
            .collect()
    }

    /// Print the counters.
    pub fn print(&self) {
        println!(
            "transitions taken: {} of {}",
            self.transitions.len(),
            TRANSITIONS.len()
        );
        for (Transition { from, to, cause }, count) in &self.transitions {
            println!("  {count:>9}  {from:?} -> {to:?}: {cause:?}");
        }
        for Transition { from, to, cause } in self.missing() {
            println!("      never  {from:?} -> {to:?}: {cause:?}");
        }
        let troubles: Vec<String> = self
            .troubles
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        println!("faults: {}", troubles.join(", "));
        let (faults, proposals) = (
            self.troubles_min.unwrap_or(0),
            self.proposals_min.unwrap_or(0),
        );
        println!("per minute at least: {faults} faults, {proposals} proposals");
        println!(
            "proposals {}, committed {}, events {}",
            self.proposals, self.committed, self.events
        );
        let (lost, torn, flipped) = (self.lost, self.torn, self.flipped);
        println!("unflushed writes lost {lost}, torn {torn}, with flipped bits {flipped}");
        let (snapshots, installed, probes) = (self.snapshots, self.installed, self.probes);
        println!("snapshots written {snapshots}, loaded {installed}; requests refused {probes}");
        println!("logs opened again after a full disk {}", self.reopened);
    }
}
