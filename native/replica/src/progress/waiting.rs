//! Waiters for an offset of a partition. Produce requests wait for their commit, Fetch requests for new records.
//!
//! A waiter names an offset and is woken once, when the watched value exceeds it. Smaller values and other waiters do
//! not wake it. Dropping a registration removes the waiter.
//!
//! No wake-up is lost because both sides write before they read, in one total order (`SeqCst`): the publisher stores
//! the value, then reads `count`; the waiter raises `count`, then reads the value. So at least one of the two sees the
//! other's write.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

use parking_lot::Mutex;
use pybroker_storage::WakerBatch;

/// A value that only grows (until it is closed), and the waiters for it.
#[derive(Debug)]
pub struct WatchedOffset {
    value: AtomicI64,
    /// Number of waiters in the list. The publisher takes the lock only if it is not 0.
    count: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    waiters: Vec<Waiter>,
    next_key: u64,
}

#[derive(Debug)]
struct Waiter {
    key: u64,
    above: i64,
    waker: Waker,
}

/// Capacity above which an empty list frees its memory after a burst.
const CAPACITY_KEPT: usize = 64;

impl WatchedOffset {
    /// Return a value that starts at `value`.
    #[must_use]
    pub fn new(value: i64) -> Self {
        Self {
            value: AtomicI64::new(value),
            count: AtomicUsize::new(0),
            list: Mutex::default(),
        }
    }

    /// Return the current value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> i64 {
        self.value.load(SeqCst)
    }

    /// Raise the value to at least `value` and wake satisfied waiters. Return true if it grew.
    pub fn raise(&self, value: i64) -> bool {
        self.raise_with(value, &mut WakerBatch::default())
    }

    /// Like `raise`, but satisfied waiters wake up when `woken` is dropped.
    pub fn raise_with(&self, value: i64, woken: &mut WakerBatch) -> bool {
        let before = self.value.fetch_max(value, SeqCst);
        if before >= value {
            return false;
        }
        self.take_satisfied(woken);
        true
    }

    /// Set the value, even to a lower one (when a follower truncates), and wake satisfied waiters.
    pub fn set(&self, value: i64) {
        self.value.store(value, SeqCst);
        self.take_satisfied(&mut WakerBatch::default());
    }

    fn take_satisfied(&self, woken: &mut WakerBatch) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let mut list = self.list.lock();
        // Read the value under the lock, so that one call with the newest value is enough for several publishers.
        let value = self.value.load(SeqCst);
        list.take(|waiter| waiter.above < value, woken);
        self.count.store(list.waiters.len(), SeqCst);
    }

    /// Wake all waiters, because the partition stops, is fenced or goes offline. They check which of these has
    /// happened.
    pub fn wake_all(&self) {
        let mut woken = WakerBatch::default();
        let mut list = self.list.lock();
        list.take(|_| true, &mut woken);
        self.count.store(0, SeqCst);
        // Release the lock before waking the waiters.
        drop(list);
    }

    /// Register `waker`, which is woken once when the value exceeds `above`. If it already does, return `None`; the
    /// caller must not wait then.
    pub fn register(self: &Arc<Self>, above: i64, waker: &Waker) -> Option<Registration> {
        if self.get() > above {
            return None;
        }
        let mut list = self.list.lock();
        let key = list.next_key;
        list.next_key += 1;
        list.waiters.push(Waiter {
            key,
            above,
            waker: waker.clone(),
        });
        self.count.store(list.waiters.len(), SeqCst);
        if self.get() > above {
            list.remove(key);
            self.count.store(list.waiters.len(), SeqCst);
            return None;
        }
        drop(list);
        Some(Registration {
            watched: Arc::clone(self),
            key,
        })
    }

    /// Return the number of registered waiters, for metrics and tests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.count.load(SeqCst)
    }
}

impl List {
    fn take(&mut self, mut which: impl FnMut(&Waiter) -> bool, taken: &mut WakerBatch) {
        let mut at = 0;
        while at < self.waiters.len() {
            if which(&self.waiters[at]) {
                taken.add(self.waiters.swap_remove(at).waker);
            } else {
                at += 1;
            }
        }
        if self.waiters.is_empty() {
            self.waiters.shrink_to(CAPACITY_KEPT);
        }
    }

    fn remove(&mut self, key: u64) -> bool {
        // Search from the end, because the newest waiters usually leave first.
        match self.waiters.iter().rposition(|waiter| waiter.key == key) {
            Some(at) => {
                self.waiters.swap_remove(at);
                true
            }
            None => false,
        }
    }
}

/// A registration in the list of waiters. Dropping it removes the waiter. After a wake-up it has no more effect;
/// register again.
#[derive(Debug)]
#[must_use]
pub struct Registration {
    watched: Arc<WatchedOffset>,
    key: u64,
}

impl Registration {
    /// Replace the waker, for a future that moved to another task. Return false if the old waker has been woken
    /// already.
    pub fn update(&self, waker: &Waker) -> bool {
        let mut list = self.watched.list.lock();
        match list
            .waiters
            .iter_mut()
            .rev()
            .find(|waiter| waiter.key == self.key)
        {
            Some(waiter) => {
                waiter.waker.clone_from(waker);
                true
            }
            None => false,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.watched.count.load(SeqCst) == 0 {
            return;
        }
        let mut list = self.watched.list.lock();
        if list.remove(self.key) {
            self.watched.count.store(list.waiters.len(), SeqCst);
        }
    }
}

#[cfg(test)]
mod tests;
