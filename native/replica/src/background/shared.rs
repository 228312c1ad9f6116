//! State that the background threads share: settings, pauses, the stop flag.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::{Condvar, Mutex};
use pybroker_model::TopicIdPartition;
use pybroker_storage::StorageError;

use super::job_failures::{Job, JobFailures};
use crate::Replicas;

/// Interval of each job, in milliseconds, with the name of Kafka's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// `log.initial.task.delay.ms`: delay before the first run of each job.
    pub initial_delay_ms: i64,
    /// `log.retention.check.interval.ms`.
    pub retention_ms: i64,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub recovery_points_ms: i64,
    /// `log.flush.start.offset.checkpoint.interval.ms`.
    pub log_starts_ms: i64,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub high_watermarks_ms: i64,
    /// `log.flush.scheduler.interval.ms`.
    pub flush_check_ms: i64,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            initial_delay_ms: 30_000,
            retention_ms: 300_000,
            recovery_points_ms: 60_000,
            log_starts_ms: 60_000,
            high_watermarks_ms: 5_000,
            flush_check_ms: i64::MAX,
        }
    }
}

/// Settings of the cleaner, with the names of Kafka's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanerSettings {
    /// `log.cleaner.enable`.
    pub enabled: bool,
    /// `log.cleaner.threads`.
    pub threads: usize,
    /// `log.cleaner.backoff.ms`.
    pub backoff_ms: i64,
    /// `log.cleaner.dedupe.buffer.size`, for all threads together.
    pub dedupe_buffer_bytes: usize,
    /// `log.cleaner.io.max.bytes.per.second`, for all threads together.
    pub io_bytes_per_second: f64,
}

impl Default for CleanerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            threads: 1,
            backoff_ms: 15_000,
            dedupe_buffer_bytes: 128 << 20,
            io_bytes_per_second: f64::MAX,
        }
    }
}

/// State that the cleaner threads share.
#[derive(Debug, Default)]
pub(super) struct CleanerState {
    /// Logs that are being compacted, so that two threads never take the same log.
    pub(super) busy: Mutex<HashSet<TopicIdPartition>>,
    /// Logs whose last pass failed, each with the time of the next attempt. Until then the cleaner skips the log.
    pub(super) failing: Mutex<HashMap<TopicIdPartition, i64>>,
}

/// State that all background threads share.
pub(super) struct BackgroundState {
    pub(super) replicas: Arc<Replicas>,
    state: Mutex<State>,
    changed: Condvar,
    /// Set when the broker stops. Threads check it between logs, so that a stop does not wait for a whole pass.
    stopping: AtomicBool,
    pub(super) cleaning: CleanerState,
    failures: JobFailures,
}

struct State {
    intervals: Intervals,
    cleaner: CleanerSettings,
    stopping: bool,
}

impl BackgroundState {
    pub(super) fn new(
        replicas: &Arc<Replicas>,
        intervals: Intervals,
        cleaner: CleanerSettings,
    ) -> Self {
        Self {
            replicas: Arc::clone(replicas),
            state: Mutex::new(State {
                intervals,
                cleaner,
                stopping: false,
            }),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            cleaning: CleanerState::default(),
            failures: JobFailures::default(),
        }
    }

    /// Change the settings and wake sleeping threads. Return false if nothing changed.
    pub(super) fn set(&self, intervals: Intervals, cleaner: CleanerSettings) -> bool {
        let mut state = self.state.lock();
        if state.intervals == intervals && state.cleaner == cleaner {
            return false;
        }
        state.intervals = intervals;
        state.cleaner = cleaner;
        drop(state);
        self.changed.notify_all();
        true
    }

    /// End all pauses and ask running jobs to stop.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.state.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Sleep for `pause`, or less if the settings change. Return false if the broker stops.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopping {
            self.changed.wait_for(&mut state, pause);
        }
        !state.stopping
    }

    pub(super) fn intervals(&self) -> Intervals {
        self.state.lock().intervals
    }

    pub(super) fn cleaner(&self) -> CleanerSettings {
        self.state.lock().cleaner
    }

    pub(super) fn now(&self) -> Instant {
        self.replicas.config.clock.now()
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.replicas.config.clock.now_ms()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Report a failure of a job that runs again soon: at once, and then at most once a minute.
    pub(super) fn report_failure(&self, job: Job, what: &dyn Display, error: &StorageError) {
        match self.failures.failed(job, error, self.now()) {
            Some(1) => self.replicas.report_storage(what, error),
            Some(count) => self
                .replicas
                .report_storage(&format_args!("{what} failed {count} times"), error),
            None => {}
        }
    }

    /// Tell the operator that a job which failed works again.
    pub(super) fn report_success(&self, job: Job) {
        if let Some(count) = self.failures.succeeded(job) {
            let (what, dir) = job;
            let path = self.replicas.dirs.get(dir).path.display();
            (self.replicas.config.inform)(&format!(
                "{what} works again failures={count} log_dir={path}"
            ));
        }
    }
}
