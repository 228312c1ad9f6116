//! The clock of a node, with its own rate and jumps.

use crate::network::Micros;

/// A clock in milliseconds that never goes back, like a system's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    since: Micros,
    at_since: f64,
    /// Local milliseconds per simulated millisecond.
    rate: f64,
}

impl Clock {
    /// Create a clock that shows `start_ms` at time 0.
    #[must_use]
    pub(crate) fn new(start_ms: u64) -> Self {
        Self {
            since: 0,
            at_since: start_ms as f64,
            rate: 1.0,
        }
    }

    fn exact(&self, now: Micros) -> f64 {
        self.at_since + (now - self.since) as f64 / 1000.0 * self.rate
    }

    /// Return the time that the clock shows.
    #[must_use]
    pub(crate) fn now_ms(&self, now: Micros) -> u64 {
        self.exact(now) as u64
    }

    /// Return when the clock will show `local_ms`; `now` if it does already.
    #[must_use]
    pub(crate) fn when(&self, now: Micros, local_ms: u64) -> Micros {
        let left_ms = local_ms as f64 - self.exact(now);
        match left_ms > 0.0 {
            true => now + (left_ms * 1000.0 / self.rate).ceil() as Micros + 1,
            false => now,
        }
    }

    /// Change the clock's rate.
    pub(crate) fn set_rate(&mut self, now: Micros, rate: f64) {
        self.at_since = self.exact(now);
        self.since = now;
        self.rate = rate;
    }

    /// Move the clock ahead.
    pub(crate) fn jump(&mut self, ms: u64) {
        self.at_since += ms as f64;
    }
}
