//! Metrics of the requests of one API key.

use pybroker_storage::{Counts, Distribution};

use super::{Counter, ERRORS, Split};

/// Versions below this number have their own counters; higher ones share the last.
pub(crate) const VERSIONS: usize = 24;

/// Stage of a request's time; the stages add up to its total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From the last byte of the request to the start of processing.
    Queue,
    /// Until the request is answered or starts to wait.
    Local,
    /// While the request waits for replicas, disks, new records or group members.
    Remote,
    /// From the request's answer until earlier requests are answered.
    ResponseQueue,
    /// Until the kernel has the last byte of the reply.
    ResponseSend,
}

/// The timer of each stage: Kafka's name and pybroker's name.
pub(crate) const STAGES: [(Stage, &str, &str); 5] = [
    (Stage::Queue, "requestqueuetimems", "queue"),
    (Stage::Local, "localtimems", "local"),
    (Stage::Remote, "remotetimems", "remote"),
    (
        Stage::ResponseQueue,
        "responsequeuetimems",
        "response_queue",
    ),
    (Stage::ResponseSend, "responsesendtimems", "response_send"),
];

/// Counters of one API key. Times are in microseconds.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    pub(crate) versions: [Counter; VERSIONS],
    pub(crate) errors: [Counter; ERRORS],
    /// Sizes of requests.
    pub(crate) bytes: Distribution,
    pub(crate) total: Distribution,
    stages: [Distribution; STAGES.len()],
    /// Number of requests that have time only in [`Stage::Local`], as is usual without a wait. The other stages do not
    /// count them.
    local_only: Counter,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            versions: std::array::from_fn(|_| Counter::default()),
            errors: std::array::from_fn(|_| Counter::default()),
            bytes: Distribution::default(),
            total: Distribution::default(),
            stages: std::array::from_fn(|_| Distribution::default()),
            local_only: Counter::default(),
        }
    }
}

impl RequestMetrics {
    /// Count the stages of a request.
    #[inline]
    pub(crate) fn record(&self, split: &Split) {
        self.total.record(split.total);
        if split.stages[Stage::Local as usize] == split.total {
            self.stages[Stage::Local as usize].record(split.total);
            self.local_only.add(1);
            return;
        }
        for (stage, micros) in self.stages.iter().zip(split.stages) {
            stage.record(micros);
        }
    }

    /// Add the distribution of that stage's times to `counts`.
    pub(crate) fn add_stage_to(&self, stage: Stage, counts: &mut Counts) {
        self.stages[stage as usize].add_to(counts);
        if stage != Stage::Local {
            counts.add_zeros(self.local_only.get());
        }
    }

    #[inline]
    pub(crate) fn version(&self, version: i16) {
        let slot = usize::try_from(version).map_or(VERSIONS - 1, |slot| slot.min(VERSIONS - 1));
        self.versions[slot].add(1);
    }

    #[inline]
    pub(crate) fn error(&self, code: i16) {
        let slot =
            usize::try_from(i32::from(code) + 1).map_or(ERRORS - 1, |slot| slot.min(ERRORS - 1));
        self.errors[slot].add(1);
    }

    /// Return the number of answered requests.
    pub(crate) fn count(&self) -> u64 {
        self.versions.iter().map(Counter::get).sum()
    }
}
