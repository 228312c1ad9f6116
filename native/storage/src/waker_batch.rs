//! Tasks that a flush wakes together.

use std::task::Waker;

/// How many earlier entries a search for the same task visits. A connection that waits for several logs of a flush is
/// then woken only once.
const LOOKED_BACK_AT: usize = 64;

/// Tasks to wake together when this batch is dropped. A task that waits for several logs of one flush is woken once,
/// after the flushed ends of all of them have moved.
#[derive(Debug, Default)]
#[must_use]
pub struct WakerBatch(Vec<Waker>);

impl WakerBatch {
    /// Add a task.
    pub fn add(&mut self, waker: Waker) {
        let mut known = self.0.iter().rev().take(LOOKED_BACK_AT);
        if !known.any(|known| known.will_wake(&waker)) {
            self.0.push(waker);
        }
    }
}

impl Drop for WakerBatch {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
