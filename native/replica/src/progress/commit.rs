//! A produce that waits for its commit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use super::{Progress, Registration};
use crate::PartitionError;

/// Ready when an append is committed; see `Partition::committed`.
#[derive(Debug)]
#[must_use]
pub struct Commit {
    progress: Arc<Progress>,
    last_offset: i64,
    step_downs: u64,
    registration: Option<Registration>,
}

impl Commit {
    /// `step_downs`: of `progress`, when the record was appended.
    pub(crate) fn new(progress: Arc<Progress>, last_offset: i64, step_downs: u64) -> Self {
        Self {
            progress,
            last_offset,
            step_downs,
            registration: None,
        }
    }

    /// Whether it is decided already, without waiting.
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

    /// What became of it, if that is decided already; else `told` is called with it, once, by whoever decides it, and
    /// nothing polls in between. `told` may run before this returns.
    pub fn tell<T>(self, told: T) -> Option<Result<(), PartitionError>>
    where
        T: FnOnce(Result<(), PartitionError>) + Send + 'static,
    {
        let decided = self.try_get();
        if decided.is_none() {
            Telling::begin(self, told);
        }
        decided
    }
}

/// A commit that is its own waker: whoever raises the high watermark wakes it, and it looks.
struct Telling<C, T> {
    /// `None` once it is decided. Held by who looks, of whom there is one.
    waits: Mutex<Option<(C, T)>>,
    /// How often it was woken since the last look began; more than none: somebody looks.
    woken: AtomicUsize,
}

impl<C, T> Telling<C, T>
where
    C: Future<Output = Result<(), PartitionError>> + Unpin + Send + 'static,
    T: FnOnce(Result<(), PartitionError>) + Send + 'static,
{
    fn begin(commit: C, told: T) {
        let telling = Telling {
            waits: Mutex::new(Some((commit, told))),
            woken: AtomicUsize::new(0),
        };
        Arc::new(telling).look();
    }

    fn look(self: &Arc<Self>) {
        if self.woken.fetch_add(1, Ordering::AcqRel) > 0 {
            // Perhaps this very thread, from within: it looks once more.
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
                let told = waits.take();
                drop(waits);
                if let Some((_, told)) = told {
                    told(decided);
                }
                // Nobody looks again.
                return;
            }
            drop(waits);
            if self.woken.fetch_sub(seen, Ordering::AcqRel) == seen {
                return;
            }
        }
    }
}

impl<C, T> Wake for Telling<C, T>
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
        // Again after registering: a stop that came before it has woken nobody here.
        match this.try_get() {
            Some(decided) => {
                this.registration = None;
                Poll::Ready(decided)
            }
            None if this.registration.is_none() => {
                // It passed the offset between the two looks and went back (a truncation): come again.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
