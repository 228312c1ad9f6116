//! Runs of plans, and the search for the shortest plan that still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::coverage::Coverage;
use crate::network::Micros;
use crate::oracle::Violation;
use crate::plan::{MINUTE, Plan, Trouble};
use crate::world::World;

/// A run that broke an invariant.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Simulated time of the failure.
    pub at: Micros,
    /// The broken invariant.
    pub violation: Violation,
}

/// Run a plan. A panic of a state machine counts as a violation.
///
/// # Errors
/// If an invariant is broken: the failure, with the counters up to it.
pub fn run(plan: &Plan, trace: bool) -> Result<Coverage, Box<(Failure, Coverage)>> {
    let mut world = World::new(plan, trace);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation {
            invariant: "the state machine's own invariants",
            seen: text.unwrap_or_default(),
        })
    });
    let coverage = world.coverage().clone();
    match outcome {
        Ok(()) => Ok(coverage),
        Err(violation) => {
            let failure = Failure {
                at: world.now(),
                violation,
            };
            Err(Box::new((failure, coverage)))
        }
    }
}

/// Suppress panic messages of state machines, which are reported as violations.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Shrink a failing plan while it breaks the same invariant: end it where it fails, then leave out kinds of faults,
/// then single faults.
#[must_use]
pub fn shrink(plan: &Plan, failure: &Failure) -> (Plan, Failure) {
    let mut smallest = (plan.clone(), failure.clone());
    smallest.0.minutes = failure.at / MINUTE + 1;
    let invariant = failure.violation.invariant;
    for &kind in Trouble::ALL {
        let mut plan = smallest.0.clone();
        plan.without.insert(kind);
        keep_if_failing(plan, invariant, &mut smallest);
    }
    let indexes: Vec<usize> = smallest
        .0
        .troubles()
        .iter()
        .map(|(index, _)| *index)
        .collect();
    for part in [8, 4, 2, 1] {
        for group in indexes.chunks(part) {
            let mut plan = smallest.0.clone();
            plan.skipped.extend(group);
            if plan.skipped.len() > smallest.0.skipped.len() {
                keep_if_failing(plan, invariant, &mut smallest);
            }
        }
    }
    smallest
}

fn keep_if_failing(plan: Plan, invariant: &str, smallest: &mut (Plan, Failure)) {
    if let Err(failed) = run(&plan, false)
        && failed.0.violation.invariant == invariant
    {
        let failure = failed.0;
        *smallest = (
            Plan {
                minutes: failure.at / MINUTE + 1,
                ..plan
            },
            failure,
        );
    }
}
