//! Failures of jobs that run again every few seconds. A full disk must not fill the broker's log, too.

use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_storage::StorageError;

/// Shortest time between two reports of the same kind of failure of a job.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// A job in one log directory.
pub(super) type Job = (&'static str, usize);

/// The jobs whose last run failed.
#[derive(Default)]
pub(super) struct JobFailures(Mutex<HashMap<Job, Failing>>);

struct Failing {
    kind: Discriminant<StorageError>,
    reported: Instant,
    /// Failures since the first one.
    count: u64,
}

impl JobFailures {
    /// Note a failure. Return the number of failures so far if it is to be reported: the first one, another kind of
    /// failure, and one a minute.
    pub(super) fn failed(&self, job: Job, error: &StorageError, now: Instant) -> Option<u64> {
        let kind = discriminant(error);
        let mut jobs = self.0.lock();
        let Some(failing) = jobs.get_mut(&job) else {
            let first = Failing {
                kind,
                reported: now,
                count: 1,
            };
            jobs.insert(job, first);
            return Some(1);
        };
        failing.count += 1;
        let is_due = now.saturating_duration_since(failing.reported) >= REPEAT_AFTER;
        if failing.kind == kind && !is_due {
            return None;
        }
        (failing.kind, failing.reported) = (kind, now);
        Some(failing.count)
    }

    /// Note a success. Return the number of failures before it, if there were any.
    pub(super) fn succeeded(&self, job: Job) -> Option<u64> {
        self.0.lock().remove(&job).map(|failing| failing.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> StorageError {
        StorageError::Full { path: "a".into() }
    }

    #[test]
    fn a_failure_is_reported_once_and_then_once_a_minute() {
        let failures = JobFailures::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let reported: Vec<_> = (0..=120)
            .step_by(5)
            .filter_map(|at| failures.failed(("checkpoint", 0), &full(), after(at)))
            .collect();
        assert_eq!(reported, [1, 13, 25]);
        assert_eq!(
            failures.failed(("checkpoint", 1), &full(), after(121)),
            Some(1)
        );
        assert_eq!(
            failures.failed(("retention", 0), &full(), after(121)),
            Some(1)
        );
    }

    #[test]
    fn another_kind_of_failure_is_reported_at_once() {
        let failures = JobFailures::default();
        let now = Instant::now();
        let closed = StorageError::Closed { path: "a".into() };
        assert_eq!(failures.failed(("checkpoint", 0), &full(), now), Some(1));
        assert_eq!(failures.failed(("checkpoint", 0), &closed, now), Some(2));
        assert_eq!(failures.failed(("checkpoint", 0), &closed, now), None);
    }

    #[test]
    fn a_success_ends_the_failures() {
        let failures = JobFailures::default();
        let now = Instant::now();
        assert_eq!(failures.succeeded(("checkpoint", 0)), None);
        failures.failed(("checkpoint", 0), &full(), now);
        failures.failed(("checkpoint", 0), &full(), now);
        assert_eq!(failures.succeeded(("checkpoint", 0)), Some(2));
        assert_eq!(failures.succeeded(("checkpoint", 0)), None);
        assert_eq!(failures.failed(("checkpoint", 0), &full(), now), Some(1));
    }
}
