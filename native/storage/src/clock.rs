//! Clock for background threads, here and in the crates above.

use std::fmt::Debug;
use std::time::Instant;

/// The caller that starts the broker provides it; nothing here or below reads the system clock.
pub trait Clock: Debug + Send + Sync {
    /// Return milliseconds since the Unix epoch. The value can step back.
    fn now_ms(&self) -> i64;

    /// Return a monotonic time, to measure durations.
    fn now(&self) -> Instant;
}
