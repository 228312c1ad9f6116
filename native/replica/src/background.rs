//! Work that nobody waits for: retention, checkpoints, flushes by time, compaction, and what follows a failed disk.
//! The only place below the server that reads a clock, and it is given one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::cleaner::{self, CleanerSettings};
use crate::{Replicas, maintenance};

/// How often each kind of work is done, in milliseconds. Kafka's names stand beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// `log.initial.task.delay.ms`: before the first of any.
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

/// What the threads share.
pub(crate) struct Shared {
    pub(crate) replicas: Arc<Replicas>,
    state: Mutex<State>,
    changed: Condvar,
    /// Read between single logs, so that a stop does not wait for all of them.
    pub(crate) stopping: AtomicBool,
    pub(crate) cleaning: cleaner::Shared,
}

struct State {
    intervals: Intervals,
    cleaner: CleanerSettings,
    stopping: bool,
}

impl Shared {
    /// Waits for `pause`, or less if settings change. False: stop.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopping {
            self.changed.wait_for(&mut state, pause);
        }
        !state.stopping
    }

    fn intervals(&self) -> Intervals {
        self.state.lock().intervals
    }

    pub(crate) fn cleaner(&self) -> CleanerSettings {
        self.state.lock().cleaner
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.replicas.config.clock)()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
}

/// The threads. Dropping it does not stop them: call [`Background::stop`].
pub struct Background {
    shared: Arc<Shared>,
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
    /// Starts the threads.
    ///
    /// # Errors
    /// No thread to be had.
    pub fn start(
        replicas: &Arc<Replicas>,
        intervals: Intervals,
        cleaner: CleanerSettings,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            replicas: Arc::clone(replicas),
            state: Mutex::new(State {
                intervals,
                cleaner,
                stopping: false,
            }),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            cleaning: cleaner::Shared::default(),
        });
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

    /// Changes the settings; takes effect at once. More cleaner threads are started; fewer take turns.
    ///
    /// # Errors
    /// No thread to be had.
    pub fn set(&self, intervals: Intervals, cleaner: CleanerSettings) -> io::Result<()> {
        {
            let mut state = self.shared.state.lock();
            if state.intervals == intervals && state.cleaner == cleaner {
                return Ok(());
            }
            state.intervals = intervals;
            state.cleaner = cleaner;
        }
        self.shared.changed.notify_all();
        self.start_cleaners(cleaner)
    }

    /// Ends the threads; waits for the log that each of them works on.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Relaxed);
        self.shared.state.lock().stopping = true;
        self.shared.changed.notify_all();
        self.shared.replicas.failed.close();
        for thread in self.threads.lock().drain(..) {
            // A panic there was reported when it happened; the stop goes on.
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

    fn spawn(&self, name: &str, work: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&shared))?;
        self.threads.lock().push(thread);
        Ok(())
    }
}

fn watch_failures(shared: &Shared) {
    while let Some((dir, reason)) = shared.replicas.failed.next() {
        shared.replicas.take_offline(dir, &reason);
    }
}

/// One kind of work and when it was last done.
struct Job {
    every: fn(&Intervals) -> i64,
    work: fn(&Shared),
    due: Instant,
}

/// How long damage that a reader met may wait to be reported.
const DAMAGE_REPORT_MS: i64 = 1_000;

/// The longest sleep between two looks at the clock.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

fn milliseconds(ms: i64) -> Duration {
    // An interval of 0 would spin.
    Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1)).min(PAUSE_MAX * 24 * 365)
}

fn maintain(shared: &Shared) {
    let intervals = shared.intervals();
    let start = Instant::now();
    let job = |every: fn(&Intervals) -> i64, work: fn(&Shared)| Job {
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
        let now = Instant::now();
        let intervals = shared.intervals();
        for job in &mut jobs {
            // Shorter intervals take effect at once.
            job.due = job.due.min(now + milliseconds((job.every)(&intervals)));
            if job.due <= now {
                (job.work)(shared);
                job.due = Instant::now() + milliseconds((job.every)(&intervals));
            }
        }
        let next = jobs.iter().map(|job| job.due).min().unwrap_or(now);
        if !shared.pause(
            next.saturating_duration_since(Instant::now())
                .min(PAUSE_MAX),
        ) {
            return;
        }
    }
}
