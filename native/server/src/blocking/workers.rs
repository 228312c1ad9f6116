//! A pool of threads with one queue, for jobs that may block on a disk: a data thread serves many connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A function that a thread of the pool runs once.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads. They start with the first job, because most brokers never need them.
pub(crate) struct Workers {
    /// Name of the threads, without their number.
    name: String,
    /// Number of threads.
    size: usize,
    /// Whether the threads run at low priority.
    background: bool,
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    stopped: bool,
}

impl Workers {
    /// Create a pool of `size` threads of normal priority.
    pub(crate) fn new(name: impl Into<String>, size: usize) -> Self {
        Workers {
            name: name.into(),
            size,
            background: false,
            queue: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Create a pool of low priority for bulk work.
    pub(crate) fn in_the_background(name: impl Into<String>, size: usize) -> Self {
        Workers {
            background: true,
            ..Workers::new(name, size)
        }
    }

    /// Queue a job. Return the job if `waiting_max` jobs are queued, the pool is stopped, or no thread can be started.
    pub(crate) fn submit(&self, job: Job, waiting_max: usize) -> Result<(), Job> {
        if !self.start() {
            return Err(job);
        }
        let mut jobs = self.queue.jobs.lock();
        if jobs.stopped || jobs.waiting.len() >= waiting_max {
            return Err(job);
        }
        jobs.waiting.push_back(job);
        drop(jobs);
        self.queue.arrived.notify_one();
        Ok(())
    }

    /// Start a thread if needed; return whether there is at least one.
    fn start(&self) -> bool {
        let mut threads = self.threads.lock();
        while threads.len() < self.size {
            let queue = Arc::clone(&self.queue);
            let background = self.background;
            let work = move || {
                if background {
                    step_back();
                }
                queue.work();
            };
            let name = format!("{}-{}", self.name, threads.len());
            match std::thread::Builder::new().name(name).spawn(work) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        !threads.is_empty()
    }

    /// Drop queued jobs, and end the threads after their current jobs.
    pub(crate) fn stop(&self) {
        let waiting = {
            let mut jobs = self.queue.jobs.lock();
            jobs.stopped = true;
            core::mem::take(&mut jobs.waiting)
        };
        // Drop the jobs outside the lock, because dropping a job may run any code.
        drop(waiting);
        self.queue.arrived.notify_all();
    }

    /// Wait for the threads, after [`Workers::stop`].
    pub(crate) fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            // Ignore a panic of the thread; it was reported when it happened.
            drop(thread.join());
        }
    }
}

impl Queue {
    fn work(&self) {
        let mut jobs = self.jobs.lock();
        while !jobs.stopped {
            match jobs.waiting.pop_front() {
                Some(job) => MutexGuard::unlocked(&mut jobs, job),
                None => self.arrived.wait(&mut jobs),
            }
        }
    }
}

/// Lower the priority of this thread. A failure is harmless.
#[cfg(target_os = "linux")]
fn step_back() {
    const NICE: i32 = 10;
    // On Linux this applies to a single thread.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

#[cfg(not(target_os = "linux"))]
fn step_back() {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_in_order_until_the_stop_which_drops_the_rest() {
        let workers = Workers::new("test", 1);
        let (told, heard) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        for number in 0..3 {
            let told = told.clone();
            let job = Box::new(move || told.send(number).expect("the test listens"));
            assert!(workers.submit(job, 3).is_ok());
        }
        assert_eq!(heard.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        let busy = Box::new(move || {
            told.send(3).expect("the test listens");
            // Ignore the error that this returns when the test drops its end.
            let _ = gate.recv();
        });
        assert!(workers.submit(busy, 3).is_ok());
        assert_eq!(heard.recv(), Ok(3));
        let dropped = Arc::new(());
        for room in [true, false] {
            let held = Arc::clone(&dropped);
            let job = Box::new(move || drop(held));
            assert_eq!(workers.submit(job, 1).is_ok(), room, "one may wait");
        }
        workers.stop();
        assert_eq!(Arc::strong_count(&dropped), 1, "what waited is gone");
        assert!(
            workers.submit(Box::new(|| ()), 3).is_err(),
            "nobody would come"
        );
        drop(open);
        workers.join();
        assert!(heard.recv().is_err(), "nothing ran since");
    }
}
