//! Flushes that are asked for and not begun yet.

use super::{Flusher, Shared};
use crate::log::Log;
use std::sync::Arc;

/// Logs that wait for the journals of their directories, which are not woken for each of them: who appends much in a row
/// has it flushed together. A journal that is at work takes them with its next group in any case. Dropping it lets
/// them begin.
#[derive(Default)]
#[must_use]
pub struct HeldFlushes(Vec<Arc<Shared>>);

impl std::fmt::Debug for HeldFlushes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HeldFlushes").field(&self.0.len()).finish()
    }
}

impl HeldFlushes {
    /// True if nobody has to be woken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets them begin.
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
    /// As [`Flusher::request`]; what the journal takes begins with `held` at the latest.
    pub fn request_with(&self, log: &Arc<Log>, held: &mut HeldFlushes) {
        let shared = &self.shared;
        if shared.queue(log) && !held.0.iter().any(|known| Arc::ptr_eq(known, shared)) {
            held.0.push(Arc::clone(shared));
        }
    }
}
