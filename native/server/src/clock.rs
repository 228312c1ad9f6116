//! The system's clock. Lower layers do not read the system's clock; the server passes them this object or a time.

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

/// Return the time in milliseconds since the Unix epoch; 0 if the clock is not set.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
