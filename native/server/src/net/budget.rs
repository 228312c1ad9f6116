//! The memory that requests of all connections may hold while they are incomplete or queued
//! (`queued.max.request.bytes`).
//!
//! Memory is charged as bytes arrive, never by the length in the frame's prefix. Above the limit only one connection,
//! the finisher, may read: otherwise many incomplete frames could fill the budget, and none would ever complete. The
//! memory held is at most the limit, plus one whole frame, plus one read per connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// Shared counter of the memory that requests hold.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// Connection that may exceed the limit to complete its frame; 0 = none.
    finisher: AtomicU64,
    /// Whether `waiters` is not empty; lets a release skip the lock.
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        MemoryBudget {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            finisher: AtomicU64::new(0),
            has_waiters: AtomicBool::new(false),
            waiters: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.wake_waiters();
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Return whether the limit is reached. A connection with unanswered requests then accepts no further one. It
    /// checks again after each answer, so it needs no wake-up.
    pub(crate) fn is_full(&self) -> bool {
        self.used() >= self.limit.load(Ordering::Relaxed)
    }

    /// Change a connection's share from `before` to `after` bytes.
    pub(crate) fn adjust(&self, before: usize, after: usize) {
        if after > before {
            self.used.fetch_add(after - before, Ordering::Relaxed);
        } else if after < before {
            self.used.fetch_sub(before - after, Ordering::SeqCst);
            self.wake_waiters();
        }
    }

    /// Return whether `connection`, which holds an incomplete frame, may continue to read. If not, `waker` is called
    /// when it may try again.
    pub(crate) fn may_read(&self, connection: u64, waker: &Waker) -> bool {
        if self.try_read(connection) {
            return true;
        }
        let mut waiters = self.waiters.lock();
        self.has_waiters.store(true, Ordering::SeqCst);
        // Check again: a release between the first check and the store saw no waiter.
        if self.try_read(connection) {
            return true;
        }
        if !waiters.iter().any(|known| known.will_wake(waker)) {
            waiters.push(waker.clone());
        }
        false
    }

    fn try_read(&self, connection: u64) -> bool {
        if self.used.load(Ordering::SeqCst) < self.limit.load(Ordering::Relaxed) {
            return true;
        }
        match self
            .finisher
            .compare_exchange(0, connection, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => true,
            Err(holder) => holder == connection,
        }
    }

    /// Release the finisher role when the connection's frame is complete or the connection closed.
    pub(crate) fn finished(&self, connection: u64) {
        if self.finisher.load(Ordering::Relaxed) == connection
            && self
                .finisher
                .compare_exchange(connection, 0, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
        {
            self.wake_waiters();
        }
    }

    fn wake_waiters(&self) {
        if self.has_waiters.load(Ordering::SeqCst) {
            let waiters = {
                let mut waiters = self.waiters.lock();
                self.has_waiters.store(false, Ordering::SeqCst);
                core::mem::take(&mut *waiters)
            };
            for waker in waiters {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_the_limit_one_connection_finishes_and_the_others_wait() {
        let budget = MemoryBudget::new(100);
        let waker = Waker::noop();
        budget.adjust(0, 60);
        assert!(budget.may_read(1, waker));
        budget.adjust(0, 60);
        assert!(budget.may_read(1, waker), "the first becomes the finisher");
        assert!(!budget.may_read(2, waker));
        budget.finished(2);
        assert!(
            !budget.may_read(2, waker),
            "only the finisher gives its place up"
        );
        budget.finished(1);
        assert!(budget.may_read(2, waker));
        assert!(!budget.may_read(1, waker));
        budget.adjust(60, 0);
        assert!(budget.may_read(1, waker));
        assert_eq!(budget.used(), 60);
    }
}
