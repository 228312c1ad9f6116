//! Requested flushes that have not begun yet.

use super::{Flusher, FlusherState};
use crate::log::Log;
use std::sync::Arc;

/// Logs that wait for the journals of their directories. A caller that appends several times in a row collects its
/// flush requests here and wakes each journal thread only once. A journal thread that is already running includes these
/// logs in its next group. Dropping this object starts the flushes.
#[derive(Default)]
#[must_use]
pub struct HeldFlushes(Vec<Arc<FlusherState>>);

impl std::fmt::Debug for HeldFlushes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HeldFlushes").field(&self.0.len()).finish()
    }
}

impl HeldFlushes {
    /// Return true if no journal thread needs to be woken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Start the flushes.
    pub fn begin(&mut self) {
        for shared in self.0.drain(..) {
            shared.wake_small.notify_one();
        }
    }
}

impl Drop for HeldFlushes {
    fn drop(&mut self) {
        self.begin();
    }
}

impl Flusher {
    /// Like [`Flusher::request`]. If the journal flushes the log, the flush starts when `held` starts its flushes, or
    /// earlier.
    pub fn request_with(&self, log: &Arc<Log>, held: &mut HeldFlushes) {
        let shared = &self.shared;
        if shared.queue(log) && !held.0.iter().any(|known| Arc::ptr_eq(known, shared)) {
            held.0.push(Arc::clone(shared));
        }
    }
}
