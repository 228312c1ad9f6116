//! A Produce request that waits for its commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use super::{Progress, Registration};
use crate::PartitionError;

/// A future that is ready when an append is committed; see `Partition::committed`.
#[derive(Debug)]
#[must_use]
pub struct Commit {
    progress: Arc<Progress>,
    last_offset: i64,
    step_downs: u64,
    registration: Option<Registration>,
}

impl Commit {
    /// Create the future. `step_downs` is the value of `progress` when the record was appended.
    pub(crate) fn new(progress: Arc<Progress>, last_offset: i64, step_downs: u64) -> Self {
        Self {
            progress,
            last_offset,
            step_downs,
            registration: None,
        }
    }

    /// Return the result if it is known already, without waiting.
    pub fn try_get(&self) -> Option<Result<(), PartitionError>> {
        match self
            .progress
            .check_committed(self.last_offset, self.step_downs)
        {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }

    /// Return the result if it is already known. Otherwise call `callback` once with it, without polling, on the thread
    /// that determines the result. `callback` may run before this function returns.
    pub fn tell<T>(self, callback: T) -> Option<Result<(), PartitionError>>
    where
        T: FnOnce(Result<(), PartitionError>) + Send + 'static,
    {
        let decided = self.try_get();
        if decided.is_none() {
            CommitNotifier::begin(self, callback);
        }
        decided
    }
}

/// A commit that is its own waker: the thread that raises the high watermark polls it.
struct CommitNotifier<C, T> {
    /// The commit and its callback; `None` once the result is known. Only one thread polls at a time and holds this
    /// lock.
    waits: Mutex<Option<(C, T)>>,
    /// Number of wake-ups since the last poll began. Above 0, a thread is polling.
    woken: AtomicUsize,
}

impl<C, T> CommitNotifier<C, T>
where
    C: Future<Output = Result<(), PartitionError>> + Unpin + Send + 'static,
    T: FnOnce(Result<(), PartitionError>) + Send + 'static,
{
    fn begin(commit: C, callback: T) {
        let notifier = CommitNotifier {
            waits: Mutex::new(Some((commit, callback))),
            woken: AtomicUsize::new(0),
        };
        Arc::new(notifier).look();
    }

    fn look(self: &Arc<Self>) {
        if self.woken.fetch_add(1, Ordering::AcqRel) > 0 {
            // Another call is polling, perhaps on this thread. It will poll once more.
            return;
        }
        let waker = Waker::from(Arc::clone(self));
        loop {
            let seen = self.woken.load(Ordering::Acquire);
            let mut waits = self.waits.lock();
            let Some((commit, _)) = waits.as_mut() else {
                return;
            };
            if let Poll::Ready(decided) = Pin::new(commit).poll(&mut Context::from_waker(&waker)) {
                let callback = waits.take();
                drop(waits);
                if let Some((_, callback)) = callback {
                    callback(decided);
                }
                // The count stays above 0, so that no thread polls again.
                return;
            }
            drop(waits);
            if self.woken.fetch_sub(seen, Ordering::AcqRel) == seen {
                return;
            }
        }
    }
}

impl<C, T> Wake for CommitNotifier<C, T>
where
    C: Future<Output = Result<(), PartitionError>> + Unpin + Send + 'static,
    T: FnOnce(Result<(), PartitionError>) + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Future for Commit {
    type Output = Result<(), PartitionError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(decided) = this.try_get() {
            this.registration = None;
            return Poll::Ready(decided);
        }
        if this
            .registration
            .as_ref()
            .is_some_and(|registration| registration.update(context.waker()))
        {
            return Poll::Pending;
        }
        #[cfg(test)]
        tests::between_the_looks();
        this.registration = this
            .progress
            .high_watermark
            .register(this.last_offset, context.waker());
        // Check again after registering, because an earlier stop did not wake this waiter.
        match this.try_get() {
            Some(decided) => {
                this.registration = None;
                Poll::Ready(decided)
            }
            None if this.registration.is_none() => {
                // The high watermark passed the offset between the two checks and then went back (a truncation), so
                // poll again.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
