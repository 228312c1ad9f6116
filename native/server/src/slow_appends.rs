//! Appends that would wait, off the data threads (R19).
//!
//! A data thread serves many connections: it must not wait for a log that somebody else writes to, nor for a disk that
//! has stopped to answer. Before a produce request appends, each of its partitions is asked whether its log is held
//! by another writer, and whether its directory's flush has made no progress for a while; if so, the request moves to
//! the one thread of that log directory, which may wait as long as it takes. Later produces of the connection stay
//! behind it. What is not seen beforehand is a write that the kernel holds up although no flush is under way: it
//! holds its data thread until it is done, and those that come after it move.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pybroker_replica::Partition;

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

type Job = Box<dyn FnOnce() + Send>;

/// One thread a log directory, started when it is first needed. A connection has at most one job here.
#[derive(Default)]
pub(crate) struct SlowAppends(Mutex<Vec<Arc<Queue>>>);

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    running: bool,
    stopped: bool,
}

impl SlowAppends {
    /// Runs `job` after the others of this log directory. After [`SlowAppends::stop`] it is dropped.
    pub(crate) fn run(&self, dir: usize, job: Job) {
        let queue = {
            let mut queues = self.0.lock();
            if queues.len() <= dir {
                queues.resize_with(dir + 1, Arc::default);
            }
            Arc::clone(&queues[dir])
        };
        let mut jobs = queue.jobs.lock();
        if jobs.stopped {
            return;
        }
        jobs.waiting.push_back(job);
        if !jobs.running {
            let worker = Arc::clone(&queue);
            let started = std::thread::Builder::new()
                .name(format!("slow-append-{dir}"))
                .spawn(move || work(&worker));
            jobs.running = started.is_ok();
            if !jobs.running
                && let Some(job) = jobs.waiting.pop_back()
            {
                // No thread to be had: slower for this data thread's connections, not wrong.
                drop(jobs);
                job();
                return;
            }
        }
        drop(jobs);
        queue.arrived.notify_one();
    }

    /// Drops what waits. A thread that waits for a disk is left to it: the logs refuse appends once they are closed.
    pub(crate) fn stop(&self) {
        for queue in self.0.lock().iter() {
            let mut jobs = queue.jobs.lock();
            jobs.stopped = true;
            jobs.waiting.clear();
            drop(jobs);
            queue.arrived.notify_all();
        }
    }
}

fn work(queue: &Queue) {
    let mut jobs = queue.jobs.lock();
    while !jobs.stopped {
        match jobs.waiting.pop_front() {
            Some(job) => parking_lot::MutexGuard::unlocked(&mut jobs, job),
            None => queue.arrived.wait(&mut jobs),
        }
    }
}
