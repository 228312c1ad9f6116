//! The system's clock. What lies below the server asks for no time: it gets this, or the time itself.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pybroker_replica::Clock;

/// The clock of a broker.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        now_ms()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// The time of day, in milliseconds since the Unix epoch; 0 for a clock that is not set.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
