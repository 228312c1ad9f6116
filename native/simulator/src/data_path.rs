//! A simulated cluster of three brokers with one partition: their real replicas (`pybroker-replica`, with real files)
//! behind a simulated network, a simulated controller, and simulated time. One seed is one run.
//!
//! A run kills brokers, cuts their power, loses and delays requests and answers, and elects leaders that some brokers
//! do not know yet. No acknowledged record may be missing in a later leader, no record that a consumer has read may
//! change, and in the end all logs are equal.
//!
//! Not simulated: the threads of the journal. The run waits until a requested flush has ended; only a leader's append
//! can stay unflushed. A power cut loses such appends, and any part of the segment that the journal still holds.

mod brokers;
mod controller;
mod history;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

/// Number of events of a run.
pub const DATA_PATH_STEPS: u64 = 3_000;

/// A fault in the simulation itself that the checks must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// The controller elects a live broker that is not in sync.
    ElectsOutsideIsr,
    /// The leader learns that its proposal was refused, although it was written.
    DeniesWrittenProposal,
    /// A follower claims a record more than it has.
    ClaimsTooMuch,
    /// A power cut also loses records that were flushed.
    LosesFlushedRecords,
}

impl PlantedFault {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::ElectsOutsideIsr,
        Self::DeniesWrittenProposal,
        Self::ClaimsTooMuch,
        Self::LosesFlushedRecords,
    ];
}

/// What a run went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataCoverage {
    /// Records that were acknowledged.
    pub acknowledged: u64,
    /// Elections of another leader.
    pub elections: u64,
    /// Brokers killed, with or without their power.
    pub deaths: u64,
    /// Truncations of records that the leader did not have.
    pub truncations: u64,
    /// ISRs that the controller wrote for a leader.
    pub isr_changes: u64,
    /// Hash of all events: equal in equal runs.
    pub trace: u64,
}

impl DataCoverage {
    /// Add the counters of another run.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.elections += other.elections;
        self.deaths += other.deaths;
        self.truncations += other.truncations;
        self.isr_changes += other.isr_changes;
    }
}

/// Run one seed for `steps` events, then heal everything and compare the logs.
///
/// # Errors
/// The broken invariant, in words. A panic of the product counts as one.
pub fn run_data_path(
    seed: u64,
    steps: u64,
    fault: Option<PlantedFault>,
) -> Result<DataCoverage, String> {
    let run = || World::new(seed, fault).run(steps);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}
