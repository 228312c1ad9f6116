//! Reads from disk, off the data threads (R19).
//!
//! sendfile and pread block when the bytes are not in the page cache. So a data thread first asks the kernel whether
//! they are (`preadv2` with RWF_NOWAIT); if not, a thread of this small pool reads the range, which brings it into
//! the cache, and wakes the connection, which then sends it.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::os;
use crate::outgoing::{FileSlice, SliceFile};

/// Threads that may wait for the disk at the same time: a cold consumer must not stand behind one other.
const THREADS: usize = 2;
/// Waiting reads; one more is not queued and its connection blocks its thread, which slows all of them evenly.
const QUEUE_MAX: usize = 1024;
/// Distance of residency probes: what is read or evicted together is mostly larger, and a probe costs a system call.
const PROBE_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// The pool. Threads start with the first cold read: most brokers never need them.
pub(crate) struct ColdReads {
    /// What its threads are called.
    name: &'static str,
    /// How many may wait for the disk at the same time.
    size: usize,
    /// Its threads run when others leave them the processor.
    lower: bool,
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

enum Job {
    /// Bring these into the page cache, then wake the connection.
    Read {
        slices: Vec<FileSlice>,
        done: Arc<AtomicBool>,
        waker: Waker,
    },
    /// Something else that works with files; it tells its connection itself.
    Run(Box<dyn FnOnce() + Send>),
}

/// A read that was asked for; done when the range is in the page cache (or failed, which sending will show).
#[derive(Debug)]
pub(crate) struct ColdRead(Arc<AtomicBool>);

impl ColdRead {
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether the slice can be sent without waiting for the disk, as far as probing can tell. Its first bytes are: the
/// log has just read the batch header there.
pub(crate) fn is_resident(slice: &FileSlice) -> bool {
    let mut at = PROBE_BYTES;
    while at < slice.bytes {
        if !byte_is_resident(&slice.file, slice.position + at as u64) {
            return false;
        }
        at += PROBE_BYTES;
    }
    byte_is_resident(
        &slice.file,
        slice.position + slice.bytes.saturating_sub(1) as u64,
    )
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

fn byte_is_resident(file: &SliceFile, position: u64) -> bool {
    let mut byte = [0];
    match os::read_resident(file.as_fd(), &mut byte, position) {
        Ok(_) => true,
        Err(Errno::AGAIN) => false,
        // A file system without RWF_NOWAIT cannot tell; other errors show when the bytes are sent.
        Err(_) => true,
    }
}

impl Default for ColdReads {
    fn default() -> Self {
        Self::pool("cold-read", THREADS, false)
    }
}

impl ColdReads {
    /// A pool for bulk work that others must not feel.
    pub(crate) fn in_the_background(name: &'static str, size: usize) -> Self {
        Self::pool(name, size, true)
    }

    fn pool(name: &'static str, size: usize, lower: bool) -> Self {
        Self {
            name,
            size,
            lower,
            queue: Arc::default(),
            threads: Mutex::default(),
        }
    }

    /// Reads the slices on the pool and then wakes `waker`. `None` if the queue is full.
    pub(crate) fn read(&self, slices: Vec<FileSlice>, waker: &Waker) -> Option<ColdRead> {
        let done = Arc::new(AtomicBool::new(false));
        let job = Job::Read {
            slices,
            done: Arc::clone(&done),
            waker: waker.clone(),
        };
        self.queue(job).ok().map(|()| ColdRead(done))
    }

    /// Runs something that works with files on the pool, or here if the queue is full.
    pub(crate) fn run(&self, work: Box<dyn FnOnce() + Send>) {
        if let Err(job) = self.queue(Job::Run(work)) {
            job.finish();
        }
    }

    fn queue(&self, job: Job) -> Result<(), Job> {
        self.start_threads();
        let mut jobs = self.queue.jobs.lock();
        if jobs.stopped || jobs.waiting.len() >= QUEUE_MAX {
            return Err(job);
        }
        jobs.waiting.push_back(job);
        drop(jobs);
        self.queue.arrived.notify_one();
        Ok(())
    }

    fn start_threads(&self) {
        let mut threads = self.threads.lock();
        while threads.len() < self.size {
            let queue = Arc::clone(&self.queue);
            let lower = self.lower;
            let work = move || {
                if lower {
                    step_back();
                }
                work(&queue);
            };
            match std::thread::Builder::new()
                .name(format!("{}-{}", self.name, threads.len()))
                .spawn(work)
            {
                Ok(thread) => threads.push(thread),
                // Without the pool a cold read blocks its data thread: slower, not wrong.
                Err(_) => return,
            }
        }
    }

    /// Ends the threads after the job each is at.
    pub(crate) fn stop(&self) {
        let waiting = {
            let mut jobs = self.queue.jobs.lock();
            jobs.stopped = true;
            core::mem::take(&mut jobs.waiting)
        };
        self.queue.arrived.notify_all();
        for job in waiting {
            job.finish();
        }
        for thread in self.threads.lock().drain(..) {
            // A reader has no state that a panic could leave half done.
            drop(thread.join());
        }
    }
}

impl Job {
    /// Does what must be done in any case.
    fn finish(self) {
        match self {
            Job::Read { done, waker, .. } => {
                done.store(true, Ordering::Release);
                waker.wake();
            }
            Job::Run(work) => work(),
        }
    }
}

fn work(queue: &Queue) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let job = {
            let mut jobs = queue.jobs.lock();
            loop {
                if let Some(job) = jobs.waiting.pop_front() {
                    break job;
                }
                if jobs.stopped {
                    return;
                }
                queue.arrived.wait(&mut jobs);
            }
        };
        if let Job::Read { slices, .. } = &job {
            for slice in slices {
                read_through(slice, &mut buffer);
            }
        }
        job.finish();
    }
}

fn read_through(slice: &FileSlice, buffer: &mut [u8]) {
    let mut at = 0;
    while at < slice.bytes {
        let wanted = buffer.len().min(slice.bytes - at);
        match rustix::io::pread(
            slice.file.as_fd(),
            &mut buffer[..wanted],
            slice.position + at as u64,
        ) {
            Ok(0) => return,
            Ok(count) => at += count,
            Err(Errno::INTR) => {}
            // The connection meets the same error when it sends, and says so.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc;
    use std::task::Wake;

    struct Signal(mpsc::Sender<()>);
    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            // The test may have ended.
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_cold_read_wakes_its_connection_and_leaves_the_bytes_resident() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![7; 600_000]).expect("written");
        let slice = FileSlice {
            file: Arc::new(file),
            position: 10,
            bytes: 500_000,
        };
        assert!(is_resident(&slice), "just written");
        let (sender, receiver) = mpsc::channel();
        let pool = ColdReads::default();
        let read = pool
            .read(vec![slice.clone()], &Arc::new(Signal(sender)).into())
            .expect("there is room");
        receiver
            .recv_timeout(std::time::Duration::from_secs(30))
            .expect("woken");
        assert!(read.is_done());
        pool.stop();
        assert!(pool.read(vec![slice], Waker::noop()).is_none(), "stopped");
    }
}
