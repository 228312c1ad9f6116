//! Who waits for the next flush of a follower's log. There is one at most: the thread that fetches for it.

use std::task::Waker;

use parking_lot::Mutex;

/// A place for one waker.
#[derive(Debug, Default)]
pub(crate) struct FlushWaiter(Mutex<Option<Waker>>);

impl FlushWaiter {
    /// Wakes `waker` once. Look again after setting it: what happened before wakes nobody.
    pub(crate) fn set(&self, waker: &Waker) {
        *self.0.lock() = Some(waker.clone());
    }

    /// Something happened that it may have waited for.
    pub(crate) fn wake(&self) {
        let waiting = self.0.lock().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}
