//! Who waits for the next flush of a follower's log. There is one at most: the thread that fetches for it.

use std::task::Waker;

use parking_lot::Mutex;
use pybroker_storage::Woken;

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
        self.wake_with(&mut Woken::default());
    }

    /// The same, with others.
    pub(crate) fn wake_with(&self, woken: &mut Woken) {
        let waiting = self.0.lock().take();
        if let Some(waker) = waiting {
            woken.add(waker);
        }
    }
}
