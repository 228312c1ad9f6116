//! Replication throttles (KIP-73) for replicas that are out of sync: a rate for sends as leader, one for fetches as
//! follower, and one for moves between log directories. Without I/O: the caller passes the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum burst after an idle time, as the time in which the rate pays for it. Without a burst, the time for which a
/// leader holds a request back would reduce the rate.
const BURST: Duration = Duration::from_secs(1);
/// Maximum time for which the bytes of one response delay the next ones.
const PAID_MAX: Duration = Duration::from_secs(3600);
/// The rate that means no limit.
const UNLIMITED: u64 = i64::MAX as u64;

/// A limit of bytes per second, and the bytes copied so far.
#[derive(Debug)]
pub struct Throttle {
    /// Bytes per second.
    rate: AtomicU64,
    /// Time at which the rate has paid for all copied bytes.
    paid_at: Mutex<Option<Instant>>,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            rate: AtomicU64::new(UNLIMITED),
            paid_at: Mutex::new(None),
        }
    }
}

impl Throttle {
    /// Set the rate in bytes per second. A change forgets the bytes copied before.
    pub fn set_rate(&self, bytes_a_second: u64) {
        if self.rate.swap(bytes_a_second, Relaxed) != bytes_a_second {
            *self.paid_at.lock() = None;
        }
    }

    /// Record copied bytes.
    pub fn record(&self, bytes: usize, now: Instant) {
        let rate = self.rate.load(Relaxed);
        if rate >= UNLIMITED || bytes == 0 {
            return;
        }
        let cost = Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(PAID_MAX);
        let mut paid_at = self.paid_at.lock();
        *paid_at = Some(paid_at.map_or(now, |then| then.max(now)) + cost.min(PAID_MAX));
    }

    /// Return when copying may continue; `None` if it may continue now.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        let rate = self.rate.load(Relaxed);
        if rate >= UNLIMITED {
            return None;
        }
        if rate == 0 {
            return Some(now + BURST);
        }
        let paid_at = (*self.paid_at.lock())?;
        paid_at.checked_sub(BURST).filter(|&until| until > now)
    }
}

/// The throttles of a broker.
#[derive(Debug, Default)]
pub struct Throttles {
    /// `leader.replication.throttled.rate`.
    pub leader: Arc<Throttle>,
    /// `follower.replication.throttled.rate`.
    pub follower: Arc<Throttle>,
    /// `replica.alter.log.dirs.io.max.bytes.per.second`.
    pub moves: Throttle,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_a_rate_nothing_waits() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        throttle.record(usize::MAX, now);
        assert_eq!(throttle.until(now), None);
    }

    #[test]
    fn over_time_the_rate_is_kept() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        throttle.set_rate(1000);
        let (mut now, mut copied) = (start, 0);
        while now < start + 100 * SECOND {
            match throttle.until(now) {
                // A leader holds a request back for this long, even if the rate would allow it earlier.
                Some(_) => now += SECOND / 2,
                None => {
                    throttle.record(100, now);
                    copied += 100;
                }
            }
        }
        assert!((99_000..=102_000).contains(&copied), "{copied}");
    }

    #[test]
    fn a_rest_saves_a_second_at_most() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        throttle.set_rate(1000);
        throttle.record(1000, start);
        assert_eq!(throttle.until(start), None);
        throttle.record(500, start);
        assert_eq!(throttle.until(start), Some(start + SECOND / 2));
        let later = start + 100 * SECOND;
        throttle.record(2000, later);
        assert_eq!(throttle.until(later), Some(later + SECOND));
        throttle.set_rate(10);
        assert_eq!(throttle.until(later), None, "another rate, another count");
    }

    #[test]
    fn a_rate_of_nothing_stops() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        throttle.set_rate(0);
        throttle.record(1, now);
        assert!(throttle.until(now).is_some());
    }
}
