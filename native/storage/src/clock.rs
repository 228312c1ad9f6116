//! The clock of background threads, in this crate and in the crates that use it.

use std::fmt::Debug;
use std::time::Instant;

/// A clock. The caller that starts the broker provides it; no code of this crate reads the system clock.
pub trait Clock: Debug + Send + Sync {
    /// Return milliseconds since the Unix epoch. The value can step back.
    fn now_ms(&self) -> i64;

    /// Return a monotonic time, to measure durations.
    fn now(&self) -> Instant;
}
