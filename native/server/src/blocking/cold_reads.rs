//! Reads from disk on a pool of threads, so that data threads do not block.
//!
//! sendfile and pread block when the bytes are not in the page cache. A data thread therefore first probes the page
//! cache (`preadv2` with RWF_NOWAIT). If the bytes are not resident, a thread of this small pool reads the range into
//! the cache and wakes the connection, which then sends it.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use rustix::io::Errno;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::blocking::workers::Workers;
use crate::limits::POOL_WORK_WAITING_MAX;
use crate::net::outgoing::{FileSlice, SliceFile};
use crate::os;

/// Threads that may block on the disk at the same time: with two, one cold consumer does not delay another.
const THREADS: usize = 2;
/// Maximum queued reads. Above it a connection reads on its data thread, which slows all connections evenly.
const QUEUE_MAX: usize = 1024;
/// Distance between residency probes: the kernel reads and evicts larger ranges, and each probe costs a system call.
const PROBE_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 256 * 1024;

thread_local! {
    /// Scratch buffer of a pool thread; its contents are unused.
    static SINK: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// The pool.
pub(crate) struct ColdReads {
    workers: Arc<Workers>,
    /// Permits for queued work; a caller without one waits for its turn.
    places: Arc<Semaphore>,
}

/// A future for the pool's answer. It is an error if no answer will come.
pub(crate) type PoolAnswer<T> = Pin<Box<dyn Future<Output = Result<T, RecvError>> + Send>>;

/// A queued read. It is done when the range is in the page cache, or when reading failed. In the latter case the send
/// reports the error.
#[derive(Debug)]
pub(crate) struct ColdRead(Arc<AtomicBool>);

impl ColdRead {
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Return whether the slice can probably be sent without blocking on the disk. Its first bytes are resident, because
/// the log has just read the batch header there.
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

fn byte_is_resident(file: &SliceFile, position: u64) -> bool {
    let mut byte = [0];
    match os::read_resident(file.as_fd(), &mut byte, position) {
        Ok(_) => true,
        Err(Errno::AGAIN) => false,
        // The file system lacks RWF_NOWAIT; other errors appear when the bytes are sent.
        Err(_) => true,
    }
}

/// Append a part of a file. Without `wait`, return false if it is not in the page cache; a part of it may have been
/// appended then.
///
/// # Errors
///
/// If the operating system returns an error, or the file ends early.
pub fn copy(
    file: impl AsFd,
    position: u64,
    bytes: usize,
    wait: bool,
    out: &mut Vec<u8>,
) -> io::Result<bool> {
    let start = out.len();
    out.resize(start + bytes, 0);
    let (mut done, mut wait) = (0, wait);
    while done < bytes {
        let rest = &mut out[start + done..];
        let read = if wait {
            rustix::io::pread(&file, rest, position + done as u64)
        } else {
            os::read_resident(&file, rest, position + done as u64)
        };
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !wait => return Ok(false),
            // The file system cannot probe the page cache, so read normally.
            Err(Errno::OPNOTSUPP) if !wait => wait = true,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

impl Default for ColdReads {
    fn default() -> Self {
        Self::new("cold-read", THREADS)
    }
}

impl ColdReads {
    /// Create a pool of `size` threads.
    pub(crate) fn new(name: &'static str, size: usize) -> Self {
        Self::with(Workers::new(name, size))
    }

    /// Create a low-priority pool for bulk work.
    pub(crate) fn in_the_background(name: &'static str, size: usize) -> Self {
        Self::with(Workers::in_the_background(name, size))
    }

    fn with(workers: Workers) -> Self {
        Self {
            workers: Arc::new(workers),
            places: Arc::new(Semaphore::new(POOL_WORK_WAITING_MAX)),
        }
    }

    /// Read the slices on the pool, then wake `waker`. `None` if the queue is full.
    pub(crate) fn read(&self, slices: Vec<FileSlice>, waker: &Waker) -> Option<ColdRead> {
        let done = Arc::new(AtomicBool::new(false));
        let (finished, waker) = (Arc::clone(&done), waker.clone());
        let read = move || {
            SINK.with_borrow_mut(|sink| {
                for slice in &slices {
                    read_through(slice, sink);
                }
            });
            finished.store(true, Ordering::Release);
            waker.wake();
        };
        let queued = self.workers.submit(Box::new(read), QUEUE_MAX);
        queued.ok().map(|()| ColdRead(done))
    }

    /// Run file I/O on the pool, now or when there is room. It runs on the caller's thread only if no pool thread can
    /// be started. If the future is dropped before there is room, the job is dropped too. `None` means that there is no
    /// answer.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> PoolAnswer<T> {
        let (sender, receiver) = oneshot::channel();
        let workers = Arc::clone(&self.workers);
        let hand_over = move |place: OwnedSemaphorePermit| {
            let run = move || {
                drop(place);
                if let Some(answer) = work() {
                    // The connection may have closed in the meantime.
                    drop(sender.send(answer));
                }
            };
            // The permits bound the queue.
            if let Err(job) = workers.submit(Box::new(run), usize::MAX) {
                job();
            }
        };
        let places = Arc::clone(&self.places);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            hand_over(place);
            return Box::pin(receiver);
        }
        Box::pin(async move {
            // The semaphore is never closed.
            if let Ok(place) = places.acquire_owned().await {
                hand_over(place);
            }
            receiver.await
        })
    }

    /// Drop queued jobs and wait for the running ones.
    pub(crate) fn stop(&self) {
        self.workers.stop();
        self.workers.join();
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
            // The connection gets the same error when it sends, and reports it.
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

    use parking_lot::Mutex;

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

    #[test]
    fn what_is_in_the_page_cache_is_copied_without_waiting() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"0123456789").expect("written");
        for wait in [false, true] {
            let mut out = b"x".to_vec();
            assert!(copy(&file, 3, 4, wait, &mut out).expect("read"));
            assert_eq!(out, b"x3456");
            let short = copy(&file, 8, 4, wait, &mut out).expect_err("the file ends before");
            assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn work_beyond_the_places_waits_for_one_and_never_runs_on_its_callers_thread() {
        let pool = ColdReads::default();
        let (gate, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (begins, begun) = mpsc::channel();
        let caller = std::thread::current().id();
        let work = |number: usize| {
            let (held, begins) = (Arc::clone(&held), begins.clone());
            move || {
                // Ignore the error: later jobs have no receiver.
                let _ = begins.send(());
                // The job must not run on the caller's thread, which holds the gate: that would deadlock.
                assert_ne!(std::thread::current().id(), caller);
                assert!(held.lock().recv().is_err(), "the gate was opened");
                Some(number)
            }
        };
        let count = QUEUE_MAX + POOL_WORK_WAITING_MAX + THREADS + 1;
        let mut answers: Vec<_> = (0..THREADS).map(|number| pool.run(work(number))).collect();
        // Start all jobs first, because running jobs hold no permit. After that, no permit becomes free.
        for _ in 0..THREADS {
            begun.recv().expect("each thread begins with one");
        }
        answers.extend((THREADS..count).map(|number| pool.run(work(number))));
        let ran = Arc::new(AtomicBool::new(false));
        let given_up = Arc::clone(&ran);
        drop(pool.run(move || {
            given_up.store(true, Ordering::Release);
            Some(0)
        }));
        drop(gate);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            for (number, answer) in answers.iter_mut().enumerate() {
                assert_eq!(answer.await, Ok(number));
            }
        });
        pool.stop();
        assert!(!ran.load(Ordering::Acquire), "its connection had gone");
    }
}
