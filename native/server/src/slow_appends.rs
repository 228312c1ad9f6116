//! Appends that would wait, off the data threads.
//!
//! A data thread serves many connections: it must not wait for a log that somebody else writes to, nor for a disk that
//! has stopped to answer. Before a produce request appends, each of its partitions is asked whether its log is held
//! by another writer, and whether its directory's flush has made no progress for a while; if so, the request moves to
//! the one thread of that log directory, which may wait as long as it takes. Later produces of the connection stay
//! behind it. What is not seen beforehand is a write that the kernel holds up although no flush is under way: it
//! holds its data thread until it is done, and those that come after it move.
//!
//! Nor must it work long: a few kilobytes can decompress to hundreds of megabytes. What one turn cannot decompress goes
//! to a small pool, which all connections share, one request of each at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_replica::Partition;

use crate::workers::{Job, Workers};

/// How long a data thread may wait for a log: an append of another connection is done sooner.
const PATIENCE: Duration = Duration::from_millis(1);
/// A flush that takes longer than this is one of a slow disk. Group commits of healthy ones take a tenth of it, and
/// moving a request costs little beside a flush of this length.
const SLOW_FLUSH: Duration = Duration::from_millis(20);

/// What one data thread has seen of the flushes of each log directory.
#[derive(Debug, Default)]
pub(crate) struct FlushWatch(Vec<(u64, Instant)>);

impl FlushWatch {
    /// The log directory whose thread has to do an append to `partition`, or `None` if it can be done here and now.
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

/// The pool has a thread for each core, up to so many.
const UNPACKERS_MAX: usize = 4;

/// One thread a log directory, started when it is first needed. A connection has at most one job here.
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
    /// Runs a job that decompresses much.
    pub(crate) fn unpack(&self, job: Job) {
        submit(&self.unpackers, job);
    }

    /// Runs `job` after the others of this log directory.
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

    /// Drops what waits. A thread that waits for a disk is left to it: the logs refuse appends once they are closed.
    pub(crate) fn stop(&self) {
        for workers in self.dirs.lock().iter() {
            workers.stop();
        }
        self.unpackers.stop();
    }
}

/// At most one job of each connection waits.
fn submit(workers: &Workers, job: Job) {
    if let Err(job) = workers.submit(job, usize::MAX) {
        // No thread to be had: slower for this data thread's connections, not wrong.
        job();
    }
}
