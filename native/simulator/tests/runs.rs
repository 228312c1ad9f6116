//! Seeds that pass, a seed that repeats its run exactly, and planted faults that the oracle detects.
//!
//! The longer runs are `ignored`: `cargo test --release -p pybroker-simulator -- --ignored`.

use std::time::{Duration, Instant};

use pybroker_quorum::Fault;
use pybroker_simulator::{Coverage, Failure, Plan, run, shrink, silence_panics};

fn failure_of(plan: &Plan) -> Option<Failure> {
    run(plan, false).err().map(|failed| failed.0)
}

fn runs(seeds: std::ops::Range<u64>, minutes: u64) -> Coverage {
    let mut total = Coverage::default();
    for seed in seeds {
        match run(&Plan::new(seed, minutes), false) {
            Ok(coverage) => total.add(&coverage),
            Err(failed) => panic!("--seed {seed} --minutes {minutes}: {}", failed.0.violation),
        }
    }
    total
}

#[test]
fn invariants_hold_in_fifty_runs() {
    silence_panics();
    let total = runs(1..51, 2);
    assert!(total.troubles_min >= Some(5) && total.proposals_min >= Some(100));
    assert!(total.missing().len() <= 10, "{:?}", total.missing());
}

#[test]
fn same_seed_is_the_same_run() {
    let once = runs(7..8, 2);
    let again = runs(7..8, 2);
    assert_eq!(once.events, again.events);
    assert_eq!(once.transitions, again.transitions);
    assert_eq!(once.committed, again.committed);
}

/// Faults that the simulator finds within a few runs each.
const QUICK: &[Fault] = &[
    Fault::VoteNotFlushed,
    Fault::VoteTwice,
    Fault::UnflushedFetch,
    Fault::ObserverCounted,
    Fault::VoterChangeNotWaitedFor,
    Fault::NoCheckQuorum,
    Fault::PreVoteSkipped,
    Fault::TruncationBelowCommitted,
    Fault::UnknownTopicIdAccepted,
    Fault::SnapshotWithOldVoters,
];

/// Return the first seed, counted from 1, whose run finds the fault.
fn finds(fault: Fault, patience: Duration) -> Option<(Plan, Failure)> {
    let started = Instant::now();
    let mut plan = Plan {
        fault: Some(fault),
        ..Plan::new(1, 4)
    };
    while started.elapsed() < patience {
        if let Some(failure) = failure_of(&plan) {
            return Some((plan, failure));
        }
        plan.seed += 1;
        plan.minutes = [4, 1][plan.seed as usize % 2];
    }
    None
}

#[test]
fn planted_faults_are_found() {
    silence_panics();
    for &fault in QUICK {
        assert!(finds(fault, Duration::from_secs(60)).is_some(), "{fault:?}");
    }
}

#[test]
fn failing_run_is_shrunk() {
    silence_panics();
    let found = finds(Fault::VoterChangeNotWaitedFor, Duration::from_secs(60));
    let (plan, failure) = found.expect("a fault that is found");
    let (smallest, smaller) = shrink(&plan, &failure);
    assert_eq!(smaller.violation.invariant, failure.violation.invariant);
    let (before, after) = (plan.troubles().len(), smallest.troubles().len());
    assert!(after * 2 < before, "{after} of {before} faults are left");
    let replayed = failure_of(&smallest).map(|failure| failure.at);
    assert_eq!(replayed, Some(smaller.at));
}

#[test]
#[ignore = "minutes"]
fn every_planted_fault_is_found_within_a_minute() {
    silence_panics();
    assert!(Fault::ALL.len() >= 25);
    for &fault in Fault::ALL {
        let started = Instant::now();
        let found = finds(fault, Duration::from_secs(60));
        let seconds = started.elapsed().as_secs_f64();
        let (plan, failure) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!(
            "{fault:?}: {seconds:.2} s, seed {}, {}",
            plan.seed, failure.violation.invariant
        );
        // The failure comes from the planted fault: without it, the same run passes.
        let clean = Plan {
            fault: None,
            ..plan
        };
        assert!(
            failure_of(&clean).is_none(),
            "{fault:?}: seed {} fails without it",
            clean.seed
        );
    }
}

#[test]
#[ignore = "minutes"]
fn all_transitions_are_taken() {
    silence_panics();
    let total = runs(1..2001, 2);
    total.print();
    assert!(total.missing().is_empty(), "{:?}", total.missing());
}
