//! The time, which the owner gives.

use std::fmt;
use std::sync::Arc;

/// Two clocks.
#[derive(Clone)]
pub struct Clock {
    monotonic_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    wall_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Clock {
    /// Return clocks from a function for time-outs, which never goes back, and one for timestamps.
    pub fn new(
        monotonic_ms: impl Fn() -> u64 + Send + Sync + 'static,
        wall_ms: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            monotonic_ms: Arc::new(monotonic_ms),
            wall_ms: Arc::new(wall_ms),
        }
    }

    pub(crate) fn monotonic_ms(&self) -> u64 {
        (self.monotonic_ms)()
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        (self.wall_ms)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
