//! The clocks that the owner supplies to a node.

use std::fmt;
use std::sync::Arc;

/// A clock for timeouts and a clock for timestamps.
#[derive(Clone)]
pub struct Clock {
    monotonic_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    wall_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Clock {
    /// Create the clocks from two functions: `monotonic_ms` for timeouts, which never goes back, and `wall_ms` for
    /// timestamps.
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
