//! Appends that would block, on threads other than the data threads.
//!
//! A data thread serves many connections, so it must not wait for a log that another thread writes to, or for a disk
//! that has stopped responding. Before a Produce appends, the thread checks for each partition whether another writer
//! holds the log, and whether the directory's flush has made no progress for a while. If so, the request moves to the
//! thread of that log directory, which may block, and later Produces of the connection wait for it. If the kernel
//! blocks a write while no flush is in progress, the check does not detect it: this write blocks its data thread, and
//! later requests move.
//!
//! A data thread must also not work long: a few kilobytes can decompress to hundreds of megabytes. Records beyond the
//! turn's budget go to a small pool that all connections share, one request of each at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_replica::Partition;

use crate::blocking::workers::{Job, Workers};

/// Longest time that a data thread waits for a log. An append of another connection takes less time.
const PATIENCE: Duration = Duration::from_millis(1);
/// A flush that takes longer indicates a slow disk. Group commits of healthy disks take a tenth of this time, and
/// moving a request to another thread costs little compared to such a flush.
const SLOW_FLUSH: Duration = Duration::from_millis(20);

/// Flush progress of each log directory, as seen by one data thread.
#[derive(Debug, Default)]
pub(crate) struct FlushWatch(Vec<(u64, Instant)>);

impl FlushWatch {
    /// Return the log directory whose thread must append to `partition`, or `None` if this thread can append now.
    pub(crate) fn slow_dir(&mut self, partition: &Partition, now: Instant) -> Option<usize> {
        let dir = partition.dir()?;
        if let Some(turn) = partition.running_sync() {
            if self.0.len() <= dir {
                self.0.resize(dir + 1, (0, now));
            }
            let (seen, since) = &mut self.0[dir];
            if *seen != turn {
                (*seen, *since) = (turn, now);
            } else if now.saturating_duration_since(*since) >= SLOW_FLUSH {
                return Some(dir);
            }
        }
        partition.is_busy(PATIENCE).then_some(dir)
    }
}

/// Maximum threads of the pool, which has one per core.
const UNPACKERS_MAX: usize = 4;

/// One thread per log directory, started on first use. A connection has at most one job here.
pub(crate) struct SlowAppends {
    dirs: Mutex<Vec<Arc<Workers>>>,
    unpackers: Workers,
}

impl Default for SlowAppends {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        SlowAppends {
            dirs: Mutex::default(),
            unpackers: Workers::new("unpack", cores.min(UNPACKERS_MAX)),
        }
    }
}

impl SlowAppends {
    /// Run a job that decompresses a lot of data.
    pub(crate) fn unpack(&self, job: Job) {
        submit(&self.unpackers, job);
    }

    /// Run `job` after earlier ones of this log directory.
    pub(crate) fn run(&self, dir: usize, job: Job) {
        let workers = {
            let mut all = self.dirs.lock();
            while all.len() <= dir {
                let name = format!("slow-append-{}", all.len());
                all.push(Arc::new(Workers::new(name, 1)));
            }
            Arc::clone(&all[dir])
        };
        submit(&workers, job);
    }

    /// Drop queued jobs. A thread that is blocked on a disk is abandoned: closed logs refuse its appends.
    pub(crate) fn stop(&self) {
        for workers in self.dirs.lock().iter() {
            workers.stop();
        }
        self.unpackers.stop();
    }
}

/// Queue the job. The queue needs no limit, because each connection has at most one job in it.
fn submit(workers: &Workers, job: Job) {
    if let Err(job) = workers.submit(job, usize::MAX) {
        // No thread can be started: run the job here, which delays this data thread's connections.
        job();
    }
}
