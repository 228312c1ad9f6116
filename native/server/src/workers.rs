//! Threads that take jobs from one queue. What may wait for a disk runs there: a data thread serves many connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// What is to be done.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// See the module. The threads start with the first job: most brokers never need them.
pub(crate) struct Workers {
    /// What the threads are called, apart from their number.
    name: String,
    /// How many jobs run at the same time.
    size: usize,
    /// The threads run when others leave them the processor.
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
    /// `size` threads of usual priority.
    pub(crate) fn new(name: impl Into<String>, size: usize) -> Self {
        Workers {
            name: name.into(),
            size,
            background: false,
            queue: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// For bulk work that others must not feel.
    pub(crate) fn in_the_background(name: impl Into<String>, size: usize) -> Self {
        Workers {
            background: true,
            ..Workers::new(name, size)
        }
    }

    /// Queues a job behind the others. Gives it back if `waiting_max` wait already, or nobody would come for it:
    /// stopped, or no thread is to be had.
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

    /// Whether there is a thread at least.
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

    /// Drops what waits, and ends the threads after the job that each is at.
    pub(crate) fn stop(&self) {
        let waiting = {
            let mut jobs = self.queue.jobs.lock();
            jobs.stopped = true;
            core::mem::take(&mut jobs.waiting)
        };
        // Not under the lock: a job may hold anything.
        drop(waiting);
        self.queue.arrived.notify_all();
    }

    /// Waits for the threads, after [`Workers::stop`].
    pub(crate) fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has been reported by the panic itself.
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

/// The scheduler prefers all threads of usual priority to this one. Where that cannot be had nothing is lost.
#[cfg(target_os = "linux")]
fn step_back() {
    const NICE: i32 = 10;
    // For Linux a thread is a process of its own here.
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
            // Ends with an error when the test drops its end.
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
