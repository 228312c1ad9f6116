//! Group commit, one flusher per log directory: who waits for the same log shares its sync, and none is made under a
//! log's writer lock. A log is queued once however often it is asked for; appends that come while it is being synced
//! queue it again. While few logs wait, each thread syncs one; above [`SYNCFS_LOGS`] one `syncfs`
//! takes all that wait. `cargo run --release -p pybroker-storage --example flush_cost` measured,
//! on ext4 with two cores (busy with other work meanwhile, so that only the proportions count),
//! 16 KB appended to each log before all of them are flushed, medians of 9 rounds:
//!
//! | dirty logs | one thread | four threads, one sync a log | four threads, syncfs |
//! |---|---|---|---|
//! | 1 | 0.41 ms | 0.49 ms | |
//! | 16 | 43 ms | 3.5 ms | 4.2 ms |
//! | 100 | 205 ms | 43 ms | 6.0 ms |
//! | 1,000 | 1,831 ms | 206 ms | 117 ms |

use crate::error::StorageError;
use crate::files;
use crate::health::Health;
use crate::log::Log;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Logs waiting at once from which on one `syncfs` is cheaper than syncing each.
pub const SYNCFS_LOGS: usize = 64;
/// Most logs synced by one `syncfs`; the rest waits for the next.
const GROUP_LOGS_MAX: usize = 16_384;

/// States of a log with regard to its flusher.
mod state {
    pub(super) const IDLE: u8 = 0;
    pub(super) const QUEUED: u8 = 1;
    pub(super) const RUNNING: u8 = 2;
    /// Being synced, and asked for again since.
    pub(super) const RUNNING_AGAIN: u8 = 3;
}

/// Flushes logs of one directory on its own threads. Dropping it finishes what is queued.
pub struct Flusher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// As each thread has one, for [`Flusher::flush_all`].
    descriptor: Mutex<File>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    health: Arc<Health>,
    syncfs_logs: usize,
    /// Syncs that run now, and how many have begun or ended so far.
    running: AtomicUsize,
    turns: AtomicU64,
}

#[derive(Default)]
struct Queue {
    logs: VecDeque<Arc<Log>>,
    stopping: bool,
}

impl Flusher {
    /// Starts `threads` threads for the log directory at `root`.
    pub(crate) fn start(
        root: &Path,
        health: &Arc<Health>,
        threads: usize,
        syncfs_logs: usize,
    ) -> Result<Self, StorageError> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            health: Arc::clone(health),
            syncfs_logs,
            running: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
        });
        let threads = (0..threads.max(1))
            .map(|index| {
                let shared = Arc::clone(&shared);
                // Opened before the first write, so that syncfs reports every error since. One for each
                // thread: a descriptor reports an error once, and of two syncs at the same time the other
                // would take its logs for flushed.
                let descriptor = File::open(root).map_err(StorageError::io("open", root))?;
                std::thread::Builder::new()
                    .name(format!("flusher-{index}"))
                    .spawn(move || shared.run(&descriptor))
                    .map_err(StorageError::io("start a thread for", root))
            })
            .collect::<Result<_, _>>()?;
        let descriptor = Mutex::new(File::open(root).map_err(StorageError::io("open", root))?);
        Ok(Self {
            shared,
            threads,
            descriptor,
        })
    }

    /// Asks for a flush of everything appended to `log` before this call. Its `on_flush` callback
    /// tells when that happened. Cheap when the log is queued already.
    pub fn request(&self, log: &Arc<Log>) {
        let asked = log
            .flush_state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| match now {
                state::IDLE => Some(state::QUEUED),
                state::RUNNING => Some(state::RUNNING_AGAIN),
                _ => None,
            });
        if asked == Ok(state::IDLE) {
            self.shared.push(Arc::clone(log));
        }
    }

    /// Everything appended to `logs` before this call is on disk when it returns, by one `syncfs` on the caller's
    /// thread: with all that was written to files beside them, and their names.
    ///
    /// # Errors
    /// The directory is offline.
    pub(crate) fn flush_all(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        self.shared.flush_group(&self.descriptor.lock(), logs);
        self.shared.health.check()
    }

    /// A number that changes whenever a sync begins or ends, while one is running. The same number for long means
    /// that the disk is stalled.
    #[must_use]
    pub fn running(&self) -> Option<u64> {
        (self.shared.running.load(Ordering::Relaxed) > 0)
            .then(|| self.shared.turns.load(Ordering::Relaxed))
    }

    /// Logs waiting to be flushed, for metrics.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().logs.len()
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.queue.lock().stopping = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there was reported when it happened; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn push(&self, log: Arc<Log>) {
        self.queue.lock().logs.push_back(log);
        self.wake.notify_one();
    }

    fn run(&self, root: &File) {
        while let Some(logs) = self.take() {
            for log in &logs {
                log.flush_state.store(state::RUNNING, Ordering::Release);
            }
            self.running.fetch_add(1, Ordering::Relaxed);
            self.turns.fetch_add(1, Ordering::Relaxed);
            match logs.as_slice() {
                [log] => {
                    // Failures take the directory offline, which everybody who waits sees.
                    let _ = log.flush();
                }
                _ => self.flush_group(root, &logs),
            }
            self.turns.fetch_add(1, Ordering::Relaxed);
            self.running.fetch_sub(1, Ordering::Relaxed);
            for log in logs {
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
                    self.push(log);
                }
            }
        }
    }

    /// The next log, or all of them if many wait; `None` when it is time to stop.
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

    #[cfg(target_os = "linux")]
    fn flush_group(&self, root: &File, logs: &[Arc<Log>]) {
        if self.health.check().is_err() {
            return;
        }
        let samples: Vec<_> = logs.iter().map(|log| log.sample()).collect();
        if let Err(error) = files::sync_filesystem(root) {
            self.health
                .fail(&format!("cannot sync the filesystem: {error}"));
            return;
        }
        for (log, sample) in logs.iter().zip(&samples) {
            log.tell_flushed(log.publish_flushed(sample));
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn flush_group(&self, _: &File, logs: &[Arc<Log>]) {
        for log in logs {
            let _ = log.flush();
        }
    }
}
