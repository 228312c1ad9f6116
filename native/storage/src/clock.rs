//! The time, for threads that nobody calls with it: here and in the crates above.

use std::fmt::Debug;
use std::time::Instant;

/// Handed in by whoever starts the broker; nothing here or below asks the system.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since the Unix epoch. It can step back.
    fn now_ms(&self) -> i64;

    /// A time that never steps back, to measure how long something takes.
    fn now(&self) -> Instant;
}
