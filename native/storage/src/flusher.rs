//! Group commit. Each log directory has one flusher. Waiters on the same log share its sync, and no sync runs under a
//! log's writer lock. A log is queued once for any number of requests; appends during its sync queue it again. While
//! few logs wait, each thread syncs one; from [`SYNCFS_LOGS`] on, one `syncfs` covers all waiting logs. `cargo run
//! --release -p pybroker-storage --example flush_cost` measured, on ext4 with two cores (busy with other work, so only
//! the proportions count), 16 KB appended to each log before all of them are flushed, medians of 9 rounds:
//!
//! | dirty logs | one thread | four threads, one sync a log | four threads, syncfs |
//! |---|---|---|---|
//! | 1 | 0.41 ms | 0.49 ms | |
//! | 16 | 43 ms | 3.5 ms | 4.2 ms |
//! | 100 | 205 ms | 43 ms | 6.0 ms |
//! | 1,000 | 1,831 ms | 206 ms | 117 ms |
//!
//! Small appends, the common case, go through the journal of the directory instead: one write and one sync for all of
//! them ([`journaling`]). `cargo run --release -p pybroker-storage --example journal_cost` measured CPU and duration of
//! a group of appends (medians, because other load on the host distorts the p99):
//!
//! | logs × bytes | a sync a log, `syncfs` from 64 on | journal |
//! |---|---|---|
//! | 1 × 170 | 64 µs, 0.16 ms | 50 µs, 0.14 ms |
//! | 1 × 65,536 | 119 µs, 0.30 ms | 88 µs, 0.18 ms |
//! | 1 × 262,144 | 181 µs, 0.40 ms | 173 µs, 0.25 ms |
//! | 16 × 170 | 569 µs, 0.78 ms | 69 µs, 0.13 ms |
//! | 16 × 16,384 | 1,076 µs, 1.55 ms | 220 µs, 0.20 ms |
//! | 16 × 65,536 | 1,158 µs, 1.62 ms | 564 µs, 0.54 ms |
//! | 200 × 170 | 589 µs, 0.80 ms | 259 µs, 0.12 ms |
//! | 1,000 × 4,096 | 6,637 µs, 17.1 ms | 6,560 µs, 2.4 ms |

use crate::clock::Clock;
use crate::distribution::{Counts, Distribution};
use crate::error::StorageError;
use crate::files;
use crate::health::Health;
use crate::journal::{self, Entries};
use crate::log::Log;
use crate::waker_batch::WakerBatch;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

mod held;
mod journaling;

pub use held::HeldFlushes;
pub use journaling::JournalFigures;
pub(crate) use journaling::{DirectoryJournal, NoteJournal};

/// Number of waiting logs from which one `syncfs` is cheaper than a sync of each.
pub const SYNCFS_LOGS: usize = 64;
/// Maximum number of logs that one `syncfs` covers. The remaining logs wait for the next one.
const GROUP_LOGS_MAX: usize = 16_384;

/// Flusher states of a log.
mod state {
    pub(super) const IDLE: u8 = 0;
    pub(super) const QUEUED: u8 = 1;
    pub(super) const RUNNING: u8 = 2;
    /// A sync is running, and another one was requested after it began.
    pub(super) const RUNNING_AGAIN: u8 = 3;
}

/// Options of a flusher; the fields are those of `LogDirOptions`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) threads: usize,
    pub(crate) syncfs_logs: usize,
    pub(crate) journal_bytes: u64,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

/// Flushes the logs of one directory on its own threads. Dropping it finishes queued flushes.
pub struct Flusher {
    shared: Arc<FlusherState>,
    /// Journal threads. They end first, because they may queue work for the other threads.
    journal_threads: Vec<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
    /// Descriptor for [`Flusher::flush_all`]; each thread has its own.
    descriptor: Mutex<File>,
}

struct FlusherState {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Queue of logs with appends for the journal.
    small: Mutex<Queue>,
    wake_small: Condvar,
    journaling: Arc<DirectoryJournal>,
    health: Arc<Health>,
    clock: Option<Arc<dyn Clock>>,
    syncfs_logs: usize,
    /// Number of running syncs, and number of sync starts and ends so far.
    running: AtomicUsize,
    turns: AtomicU64,
    /// Duration of each sync in microseconds.
    times: Mutex<Distribution>,
}

#[derive(Default)]
struct Queue {
    logs: VecDeque<Arc<Log>>,
    /// When the first log of the queue began to wait. Only the journal's queue sets it.
    since: Option<Instant>,
    stopping: bool,
}

impl Flusher {
    /// Start the threads for the log directory at `root`.
    pub(crate) fn start(
        root: &Path,
        health: &Arc<Health>,
        options: Options,
        note: NoteJournal,
    ) -> Result<Self, StorageError> {
        let Options {
            threads,
            syncfs_logs,
            journal_bytes,
            clock,
        } = options;
        let journaling = DirectoryJournal::new(root, health, journal_bytes, syncfs_logs, note)?;
        let shared = Arc::new(FlusherState {
            queue: Mutex::default(),
            wake: Condvar::new(),
            small: Mutex::default(),
            wake_small: Condvar::new(),
            journaling: Arc::new(journaling),
            health: Arc::clone(health),
            clock,
            syncfs_logs,
            running: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
            times: Mutex::default(),
        });
        let start = |name: String, run: fn(&FlusherState, &File)| {
            let shared = Arc::clone(&shared);
            // Open the descriptor before the first write, so that syncfs reports all later errors. Each thread needs
            // its own descriptor, because a descriptor reports an error only once. With a shared one, a parallel sync
            // would miss the error and consider its logs flushed.
            let descriptor = File::open(root).map_err(StorageError::io("open", root))?;
            std::thread::Builder::new()
                .name(name)
                .spawn(move || run(&shared, &descriptor))
                .map_err(StorageError::io("start a thread for", root))
        };
        let threads = (0..threads.max(1))
            .map(|index| start(format!("flusher-{index}"), FlusherState::run))
            .collect::<Result<_, _>>()?;
        let mut journal_threads = Vec::new();
        if shared.journaling.is_on() {
            journal_threads.push(start("journal".into(), |shared, _| shared.run_journal())?);
            journal_threads.push(start("journal-sync".into(), |shared, root| {
                shared.journaling.run(root);
            })?);
        }
        let descriptor = Mutex::new(File::open(root).map_err(StorageError::io("open", root))?);
        Ok(Self {
            shared,
            journal_threads,
            threads,
            descriptor,
        })
    }

    /// Request a flush of everything appended to `log` before this call. The log's `on_flush` callback reports the
    /// flush. Cheap if the log is queued already.
    pub fn request(&self, log: &Arc<Log>) {
        if self.shared.queue(log) {
            self.shared.wake_small.notify_one();
        }
    }

    /// Return the journal of the directory.
    pub(crate) fn journaling(&self) -> &DirectoryJournal {
        &self.shared.journaling
    }

    /// Return the journal handle for logs of this directory.
    pub(crate) fn journaling_of_logs(&self) -> journal::OfLog {
        let journaling: &Arc<DirectoryJournal> = &self.shared.journaling;
        journaling.is_on().then(|| {
            let weak: Weak<DirectoryJournal> = Arc::downgrade(journaling);
            weak as Weak<dyn Entries>
        })
    }

    /// Return the journal's statistics.
    #[must_use]
    pub fn journal_figures(&self) -> JournalFigures {
        self.shared.journaling.figures()
    }

    /// Add the flush durations, in microseconds, to `counts`.
    pub fn add_times(&self, counts: &mut Counts) {
        self.shared.times.lock().add_to(counts);
    }

    /// Flush everything appended to `logs` before this call, with one `syncfs` on the caller's thread; also covers
    /// other files of the filesystem and their names.
    ///
    /// # Errors
    /// If the directory is offline.
    pub(crate) fn flush_all(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        sync_group(&self.descriptor.lock(), &self.shared.health, logs);
        self.shared.health.check()
    }

    /// Return a number that changes whenever a sync begins or ends, or `None` if no sync is running. If the number
    /// stays the same for a long time, the disk has stalled.
    #[must_use]
    pub fn running(&self) -> Option<u64> {
        (self.shared.running.load(Ordering::Relaxed) > 0)
            .then(|| self.shared.turns.load(Ordering::Relaxed))
    }

    /// Return the number of logs that wait for a flush, for metrics.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().logs.len() + self.shared.small.lock().logs.len()
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.small.lock().stopping = true;
        self.shared.wake_small.notify_all();
        self.shared.journaling.stop();
        for thread in self.journal_threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.queue.lock().stopping = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // Ignore a panic of the thread: it was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl FlusherState {
    /// Queue the log unless it is queued. Return whether it goes to the journal; the caller must then wake the journal.
    fn queue(&self, log: &Arc<Log>) -> bool {
        let asked = log
            .flush_state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| match now {
                state::IDLE => Some(state::QUEUED),
                state::RUNNING => Some(state::RUNNING_AGAIN),
                _ => None,
            });
        asked == Ok(state::IDLE) && self.push(Arc::clone(log))
    }

    fn push(&self, log: Arc<Log>) -> bool {
        if log.journal.is_some() && log.is_small(journal::SMALL_BYTES_MAX) {
            let mut small = self.small.lock();
            if small.logs.is_empty() {
                small.since = self.now();
            }
            small.logs.push_back(log);
            return true;
        }
        self.push_large(log);
        false
    }

    fn push_large(&self, log: Arc<Log>) {
        self.queue.lock().logs.push_back(log);
        self.wake.notify_one();
    }

    /// Write group after group. Each contains all logs that wait at that time.
    fn run_journal(&self) {
        loop {
            let (logs, since): (Vec<_>, _) = {
                let mut small = self.small.lock();
                while small.logs.is_empty() {
                    if small.stopping {
                        return;
                    }
                    self.wake_small.wait(&mut small);
                }
                (small.logs.drain(..).collect(), small.since)
            };
            let others = self.turn(&logs, || self.journaling.flush(&logs));
            if let (Some(now), Some(since)) = (self.now(), since)
                && others.len() < logs.len()
            {
                let waited = now.saturating_duration_since(since);
                self.journaling.note_wait(waited);
            }
            for log in others {
                log.flush_state.store(state::QUEUED, Ordering::Release);
            }
            for log in logs {
                // While a log's sync runs, other threads do not queue the log.
                if log.flush_state.load(Ordering::Acquire) == state::QUEUED {
                    self.push_large(log);
                } else {
                    self.is_done(log);
                }
            }
        }
    }

    fn now(&self) -> Option<Instant> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Run a sync of these logs, and update their states and the statistics.
    fn turn<R>(&self, logs: &[Arc<Log>], sync: impl FnOnce() -> R) -> R {
        for log in logs {
            log.flush_state.store(state::RUNNING, Ordering::Release);
        }
        self.running.fetch_add(1, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
        let begun = self.now();
        let result = sync();
        if let (Some(begun), Some(now)) = (begun, self.now()) {
            let took = now.saturating_duration_since(begun).as_micros();
            let took = u64::try_from(took).unwrap_or(u64::MAX);
            self.times.lock().record(took);
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Queue the log again if another flush was requested during the sync.
    fn is_done(&self, log: Arc<Log>) {
        let again = log
            .flush_state
            .compare_exchange(
                state::RUNNING,
                state::IDLE,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_err();
        if again {
            log.flush_state.store(state::QUEUED, Ordering::Release);
            if self.push(log) {
                self.wake_small.notify_one();
            }
        }
    }

    fn run(&self, root: &File) {
        while let Some(logs) = self.take() {
            self.turn(&logs, || match logs.as_slice() {
                [log] => {
                    // Ignore the error: a failure takes the directory offline, which all waiters notice.
                    let _ = log.flush();
                }
                _ => {
                    sync_group(root, &self.health, &logs);
                }
            });
            logs.into_iter().for_each(|log| self.is_done(log));
        }
    }

    /// Return the next log, or all logs if many wait; `None` to stop.
    fn take(&self) -> Option<Vec<Arc<Log>>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.logs.len() >= self.syncfs_logs && cfg!(target_os = "linux") {
                let count = queue.logs.len().min(GROUP_LOGS_MAX);
                return Some(queue.logs.drain(..count).collect());
            }
            if let Some(log) = queue.logs.pop_front() {
                return Some(vec![log]);
            }
            if queue.stopping {
                return None;
            }
            self.wake.wait(&mut queue);
        }
    }
}

/// Flush everything appended to `logs` into their files, without taking their flush locks. Return true on success.
#[cfg(target_os = "linux")]
fn sync_group(root: &File, health: &Health, logs: &[Arc<Log>]) -> bool {
    if health.check().is_err() {
        return false;
    }
    let samples: Vec<_> = logs.iter().map(|log| log.sample()).collect();
    if let Err(error) = files::sync_filesystem(root) {
        health.fail(&format!("cannot sync the filesystem: {error}"));
        return false;
    }
    let mut woken = WakerBatch::default();
    for (log, sample) in logs.iter().zip(&samples) {
        log.tell_flushed_with(log.publish_flushed(sample), &mut woken);
    }
    drop(woken);
    for (log, sample) in logs.iter().zip(&samples) {
        if log.was_truncated(sample) {
            // The truncated log's new content needs its own flush. If that fails, the directory goes offline.
            let _ = log.flush();
        }
    }
    true
}

#[cfg(not(target_os = "linux"))]
fn sync_group(_: &File, _: &Health, logs: &[Arc<Log>]) -> bool {
    logs.iter().all(|log| log.flush().is_ok())
}
