//! Usage of one quota by one entity, counted by all of its connections on their threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::samples::{At, Samples, Windows, excess_ms};
use super::table::Kind;

/// Nanoseconds a second that are one percent of a thread.
const PERCENT: f64 = 1e7;

/// Entity and quota. A part that is `None` means all users or all client ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UsageKey {
    pub(crate) kind: Kind,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) client_id: Option<Arc<str>>,
}

/// Usage of one quota by one entity.
#[derive(Debug)]
pub struct EntityUsage {
    pub(crate) key: UsageKey,
    began: Instant,
    /// Limit per second, as the bits of a float: bytes, or nanoseconds.
    bound: AtomicU64,
    used: Samples,
    throttled_ms: Samples,
    throttles: Samples,
}

impl EntityUsage {
    pub(super) fn new(key: UsageKey, windows: Windows, began: Instant) -> Self {
        EntityUsage {
            key,
            began,
            bound: AtomicU64::new(f64::INFINITY.to_bits()),
            used: Samples::new(windows),
            throttled_ms: Samples::new(windows),
            throttles: Samples::new(windows),
        }
    }

    /// Set the limit, in the unit of its quota.
    pub(super) fn set_bound(&self, bound: f64) {
        self.bound.store((bound * self.unit()).to_bits(), Relaxed);
    }

    fn bound(&self) -> f64 {
        f64::from_bits(self.bound.load(Relaxed))
    }

    fn unit(&self) -> f64 {
        match self.key.kind {
            Kind::Request => PERCENT,
            _ => 1.0,
        }
    }

    fn at(&self, now: Instant) -> At {
        let passed = now.saturating_duration_since(self.began);
        self.used.windows().at(passed)
    }

    /// Count usage and return the throttle time in milliseconds.
    pub(crate) fn record(&self, amount: u64, now: Instant) -> u32 {
        let at = self.at(now);
        self.used.add(amount, at);
        self.note(self.excess_ms(0, at), at)
    }

    /// Count usage if it is within the quota; otherwise return the milliseconds until it would be. The first usage in
    /// the windows is always counted, because an amount above the quota would otherwise never be accepted.
    pub(crate) fn admit(&self, amount: u64, now: Instant) -> Result<(), u32> {
        let at = self.at(now);
        match self.excess_ms(amount, at) {
            wait if wait > 0 && self.used.sum(at) > 0 => Err(self.note(wait, at)),
            _ => {
                self.used.add(amount, at);
                Ok(())
            }
        }
    }

    /// Count usage without checking the quota.
    pub fn add(&self, amount: u64, now: Instant) {
        self.used.add(amount, self.at(now));
    }

    fn excess_ms(&self, more: u64, at: At) -> u32 {
        let sum = self.used.sum(at).saturating_add(more);
        let wait = excess_ms(sum, self.bound(), at);
        match self.key.kind {
            // Kafka limits the wait to one window, because the thread time was already used.
            Kind::Request => wait.min(u32::try_from(self.used.windows().length_ms).unwrap_or(wait)),
            _ => wait,
        }
    }

    fn note(&self, wait_ms: u32, at: At) -> u32 {
        if wait_ms > 0 {
            self.throttled_ms.add(wait_ms.into(), at);
            self.throttles.add(1, at);
        }
        wait_ms
    }

    /// Return the maximum bytes of one answer.
    pub(crate) fn burst(&self) -> usize {
        // The cast saturates.
        self.used.windows().burst(self.bound()) as usize
    }

    /// Return whether there was no recent usage, so that the counters can be dropped without effect.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.used.sum(self.at(now)) == 0
    }

    /// Return the usage per second, in the unit of the quota.
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        self.used.rate(self.at(now)) / self.unit()
    }

    /// Return the average throttle time in milliseconds of the throttled requests.
    pub(crate) fn throttle_ms(&self, now: Instant) -> f64 {
        let at = self.at(now);
        let times = self.throttles.sum(at);
        self.throttled_ms.sum(at) as f64 / times.max(1) as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    fn usage(kind: Kind, bound: f64) -> (EntityUsage, impl Fn(u64) -> Instant) {
        let (user, client_id) = (None, None);
        let began = Instant::now();
        let key = UsageKey {
            kind,
            user,
            client_id,
        };
        let usage = EntityUsage::new(key, Windows::default(), began);
        usage.set_bound(bound);
        (usage, move |ms| began + Duration::from_millis(ms))
    }

    #[test]
    fn who_waits_as_told_keeps_the_quota() {
        let (usage, at) = usage(Kind::Produce, 1_000.0);
        let (mut ms, mut bytes) = (0, 0);
        while ms < 100_000 {
            bytes += 700;
            ms += 1 + u64::from(usage.record(700, at(ms)));
        }
        // The burst of ten seconds is admitted at once.
        assert!((95_000..=111_000).contains(&bytes), "{bytes}");
        assert!(usage.throttle_ms(at(ms)) > 0.0);
    }

    #[test]
    fn an_answer_over_the_quota_is_not_counted() {
        let (usage, at) = usage(Kind::Fetch, 1_000.0);
        assert_eq!(usage.burst(), 10_000);
        assert_eq!(usage.admit(10_000, at(0)), Ok(()));
        assert_eq!(usage.admit(1_000, at(0)), Err(1_000));
        assert_eq!(usage.admit(1_000, at(11_000)), Ok(()));
    }

    #[test]
    fn what_would_never_be_within_the_quota_goes_alone() {
        let (usage, at) = usage(Kind::Fetch, 1.0);
        assert_eq!(usage.admit(1_000_000, at(0)), Ok(()));
        assert!(usage.admit(1, at(10_000)).is_err());
        assert_eq!(usage.admit(1_000_000, at(11_000)), Ok(()));
    }

    #[test]
    fn time_is_owed_for_a_window_at_most() {
        let (usage, at) = usage(Kind::Request, 50.0);
        usage.add(4_000_000_000, at(0));
        assert_eq!(usage.rate(at(0)), 40.0);
        assert_eq!(usage.record(0, at(0)), 0);
        usage.add(40_000_000_000, at(0));
        assert_eq!(usage.record(0, at(0)), 1_000);
        assert_eq!(usage.record(0, at(11_000)), 0);
        assert!(usage.is_idle(at(11_000)));
    }
}
