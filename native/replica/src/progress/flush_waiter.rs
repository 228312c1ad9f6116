//! The waiter for the next flush of a follower's log. There is at most one: the fetcher thread.

use std::task::Waker;

use parking_lot::Mutex;
use pybroker_storage::WakerBatch;

/// A place for one waker.
#[derive(Debug, Default)]
pub(crate) struct FlushWaiter(Mutex<Option<Waker>>);

impl FlushWaiter {
    /// Set the waker, which is woken once. The caller must check its condition again afterwards, because earlier events
    /// do not wake it.
    pub(crate) fn set(&self, waker: &Waker) {
        *self.0.lock() = Some(waker.clone());
    }

    /// Wake the waiter.
    pub(crate) fn wake(&self) {
        self.wake_with(&mut WakerBatch::default());
    }

    /// Add the waiter to `woken`, which wakes it with others.
    pub(crate) fn wake_with(&self, woken: &mut WakerBatch) {
        let waiting = self.0.lock().take();
        if let Some(waker) = waiting {
            woken.add(waker);
        }
    }
}
