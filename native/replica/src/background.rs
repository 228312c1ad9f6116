//! Background threads of the data plane: retention, checkpoints, timed flushes, compaction, and the handling of failed
//! disks.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Replicas;
use shared::BackgroundState;

mod cleaner;
mod job_failures;
mod maintenance;
mod shared;

pub use shared::{CleanerSettings, Intervals};

/// The running background threads. Dropping this object does not stop them: call [`Background::stop`].
pub struct Background {
    shared: Arc<BackgroundState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    cleaners: Mutex<usize>,
}

impl std::fmt::Debug for Background {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Background")
            .field("threads", &self.threads.lock().len())
            .finish_non_exhaustive()
    }
}

impl Background {
    /// Start the threads.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(
        replicas: &Arc<Replicas>,
        intervals: Intervals,
        cleaner: CleanerSettings,
    ) -> io::Result<Self> {
        let shared = Arc::new(BackgroundState::new(replicas, intervals, cleaner));
        let background = Self {
            shared,
            threads: Mutex::default(),
            cleaners: Mutex::new(0),
        };
        background.spawn("disk-failures", watch_failures)?;
        background.spawn("maintenance", maintain)?;
        background.start_cleaners(cleaner)?;
        Ok(background)
    }

    /// Change the settings at once. Start more cleaner threads if needed; surplus threads become idle.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn set(&self, intervals: Intervals, cleaner: CleanerSettings) -> io::Result<()> {
        if self.shared.set(intervals, cleaner) {
            self.start_cleaners(cleaner)?;
        }
        Ok(())
    }

    /// Stop the threads. Waits until each thread finishes the log that it is working on.
    pub fn stop(&self) {
        self.shared.stop();
        self.shared.replicas.failed.close();
        for thread in self.threads.lock().drain(..) {
            // Ignore a panic of the thread; it was reported when it happened.
            drop(thread.join());
        }
    }

    fn start_cleaners(&self, settings: CleanerSettings) -> io::Result<()> {
        let mut cleaners = self.cleaners.lock();
        while settings.enabled && *cleaners < settings.threads {
            let number = *cleaners;
            self.spawn(&format!("cleaner-{number}"), move |shared| {
                cleaner::run(shared, number)
            })?;
            *cleaners += 1;
        }
        Ok(())
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&BackgroundState) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&shared))?;
        self.threads.lock().push(thread);
        Ok(())
    }
}

fn watch_failures(shared: &BackgroundState) {
    while let Some((dir, reason)) = shared.replicas.failed.next() {
        shared.replicas.take_offline(dir, &reason);
    }
}

/// A periodic job and the time when it is due.
struct Job {
    every: fn(&Intervals) -> i64,
    work: fn(&BackgroundState),
    due: Instant,
}

/// Interval at which the maintenance thread reports damage that readers found.
const DAMAGE_REPORT_MS: i64 = 1_000;

/// Longest sleep before a thread checks the clock again.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

fn milliseconds(ms: i64) -> Duration {
    // An interval of 0 would make the loop spin.
    Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1)).min(PAUSE_MAX * 24 * 365)
}

fn maintain(shared: &BackgroundState) {
    let intervals = shared.intervals();
    let start = shared.now();
    let job = |every: fn(&Intervals) -> i64, work: fn(&BackgroundState)| Job {
        every,
        work,
        due: start + milliseconds(every(&intervals).min(intervals.initial_delay_ms)),
    };
    let mut jobs = [
        job(|_| DAMAGE_REPORT_MS, maintenance::report_damage),
        job(
            |intervals| intervals.high_watermarks_ms,
            maintenance::checkpoint_high_watermarks,
        ),
        job(
            |intervals| intervals.log_starts_ms,
            maintenance::checkpoint_log_starts,
        ),
        job(
            |intervals| intervals.recovery_points_ms,
            maintenance::checkpoint_recovery_points,
        ),
        job(
            |intervals| intervals.flush_check_ms,
            maintenance::flush_overdue,
        ),
        job(
            |intervals| intervals.retention_ms,
            maintenance::apply_retention,
        ),
    ];
    loop {
        let now = shared.now();
        let intervals = shared.intervals();
        for job in &mut jobs {
            // A shorter interval takes effect at once.
            job.due = job.due.min(now + milliseconds((job.every)(&intervals)));
            if job.due <= now {
                (job.work)(shared);
                job.due = shared.now() + milliseconds((job.every)(&intervals));
            }
        }
        let next = jobs.iter().map(|job| job.due).min().unwrap_or(now);
        if !shared.pause(next.saturating_duration_since(shared.now()).min(PAUSE_MAX)) {
            return;
        }
    }
}
