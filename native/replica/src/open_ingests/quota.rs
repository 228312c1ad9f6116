//! Limits on the amount and rate of staging, because other producers share the disks and cores.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::IngestError;

/// An append is admitted if the rate pays for all earlier bytes within this time.
pub(super) const CREDIT: Duration = Duration::from_secs(1);
/// Longest time that the bytes of one append cost, even at a very low rate. An append is admitted completely, and must
/// not block all ingests until they expire.
const APPEND_MAX: Duration = Duration::from_secs(60);
/// How long clients wait when the limit of staged bytes is reached. Commits, aborts and expiry free space.
const FULL_WAIT_MS: i32 = 1_000;

/// The broker's ingest settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestLimits {
    /// `ingest.quota.bytes.per.second`, for all ingests together.
    pub bytes_per_second: u64,
    /// `ingest.quota.shared.bytes.per.second`: for all ingests together while other producers are active.
    pub shared_bytes_per_second: u64,
    /// `ingest.staged.bytes.max`.
    pub staged_bytes_max: u64,
    /// `ingest.attempts.max`.
    pub attempts_max: usize,
    /// `ingest.copy.bytes.max`.
    pub copy_bytes_max: u64,
    /// `ingest.cached.bytes.max`.
    pub cached_bytes_max: u64,
}

impl Default for IngestLimits {
    fn default() -> Self {
        Self {
            bytes_per_second: u64::MAX,
            shared_bytes_per_second: u64::MAX,
            staged_bytes_max: u64::MAX,
            attempts_max: 200_000,
            copy_bytes_max: 4 << 20,
            cached_bytes_max: 4 << 20,
        }
    }
}

/// The debt of admitted bytes: the time that the rate needs to pay for them.
#[derive(Debug, Default)]
pub(super) struct Debt {
    left: Duration,
    /// Time of the last update. `None` if no bytes were admitted yet.
    since: Option<Instant>,
    /// Rate at which `left` was computed.
    rate: u64,
}

impl Debt {
    /// Return the remaining debt at `now`. A higher rate shortens it; a lower rate does not prolong it.
    pub(super) fn left(&mut self, rate: u64, now: Instant) -> Duration {
        if let Some(since) = self.since {
            // Requests come from several threads, so `now` may be earlier than in the previous call.
            self.left = self
                .left
                .saturating_sub(now.saturating_duration_since(since));
        }
        if rate > self.rate {
            let nanos = self.left.as_nanos() * u128::from(self.rate) / u128::from(rate);
            self.left = nanos_or_max(nanos);
        }
        self.since = self.since.max(Some(now));
        self.rate = rate;
        self.left
    }

    /// Return whether the debt is paid at `now`.
    pub(super) fn is_paid(&self, now: Instant) -> bool {
        let passed = self.since.map(|since| now.saturating_duration_since(since));
        passed.is_none_or(|passed| passed >= self.left)
    }

    /// Add the bytes of an append, at the last rate.
    pub(super) fn add(&mut self, bytes: u64) {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.max(1));
        self.left += nanos_or_max(nanos).min(APPEND_MAX);
    }
}

fn nanos_or_max(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

/// The settings and the current debt.
#[derive(Debug)]
pub(crate) struct Quota {
    bytes_per_second: AtomicU64,
    shared_bytes_per_second: AtomicU64,
    staged_bytes_max: AtomicU64,
    attempts_max: AtomicUsize,
    copy_bytes_max: AtomicU64,
    cached_bytes_max: AtomicU64,
    debt: Mutex<Debt>,
}

impl Default for Quota {
    fn default() -> Self {
        let limits = IngestLimits::default();
        Self {
            bytes_per_second: AtomicU64::new(limits.bytes_per_second),
            shared_bytes_per_second: AtomicU64::new(limits.shared_bytes_per_second),
            staged_bytes_max: AtomicU64::new(limits.staged_bytes_max),
            attempts_max: AtomicUsize::new(limits.attempts_max),
            copy_bytes_max: AtomicU64::new(limits.copy_bytes_max),
            cached_bytes_max: AtomicU64::new(limits.cached_bytes_max),
            debt: Mutex::default(),
        }
    }
}

impl Quota {
    pub(crate) fn set(&self, limits: IngestLimits) {
        self.bytes_per_second
            .store(limits.bytes_per_second.max(1), Relaxed);
        self.shared_bytes_per_second
            .store(limits.shared_bytes_per_second.max(1), Relaxed);
        self.staged_bytes_max
            .store(limits.staged_bytes_max, Relaxed);
        self.attempts_max.store(limits.attempts_max, Relaxed);
        self.copy_bytes_max.store(limits.copy_bytes_max, Relaxed);
        self.cached_bytes_max
            .store(limits.cached_bytes_max, Relaxed);
    }

    /// Return the largest number of bytes that a commit copies into a log instead of linking.
    pub(crate) fn copy_bytes_max(&self) -> u64 {
        self.copy_bytes_max.load(Relaxed)
    }

    /// Return the maximum bytes of a segment that are staged through the page cache.
    pub(crate) fn cached_bytes_max(&self) -> u64 {
        self.cached_bytes_max.load(Relaxed)
    }

    /// Return the largest number of attempts with staged records, counted for each partition.
    pub(crate) fn attempts_max(&self) -> usize {
        self.attempts_max.load(Relaxed)
    }

    /// Admit `bytes` or refuse them. Return how long the client must wait before the next append. `shared` means that
    /// other producers are active.
    pub(crate) fn admit(
        &self,
        bytes: u64,
        staged: u64,
        shared: bool,
        now: Instant,
    ) -> Result<i32, IngestError> {
        if staged.saturating_add(bytes) > self.staged_bytes_max.load(Relaxed) {
            return Err(IngestError::Throttled {
                reason: "ingest.staged.bytes.max is reached; no record of this request was staged",
                wait_ms: FULL_WAIT_MS,
            });
        }
        let (rate, used_up) = self.rate(shared);
        let mut debt = self.debt.lock();
        let left = debt.left(rate, now);
        if left > CREDIT {
            return Err(IngestError::Throttled {
                reason: used_up,
                wait_ms: millis(left - CREDIT).max(1),
            });
        }
        debt.add(bytes);
        Ok(millis(debt.left))
    }

    /// Return the current rate in bytes per second, and the error text for a client that exceeds it.
    fn rate(&self, shared: bool) -> (u64, &'static str) {
        let rate = self.bytes_per_second.load(Relaxed);
        let with_producers = self.shared_bytes_per_second.load(Relaxed);
        if shared && with_producers < rate {
            let used_up = "ingest.quota.shared.bytes.per.second is used up while other clients produce; no record of \
                 this request was staged";
            return (with_producers, used_up);
        }
        let used_up =
            "ingest.quota.bytes.per.second is used up; no record of this request was staged";
        (rate, used_up)
    }
}

/// Return the error for an attempt above the limit.
pub(crate) const fn too_many_attempts() -> IngestError {
    IngestError::Throttled {
        reason: "ingest.attempts.max attempts have staged records; no record was staged for this partition",
        wait_ms: FULL_WAIT_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(bytes_per_second: u64, shared_bytes_per_second: u64) -> IngestLimits {
        IngestLimits {
            bytes_per_second,
            shared_bytes_per_second,
            ..IngestLimits::default()
        }
    }

    /// Return a quota, and a function from milliseconds to points in time.
    fn quota(limits: IngestLimits) -> (Quota, impl Fn(u64) -> Instant) {
        let quota = Quota::default();
        quota.set(limits);
        let begun = Instant::now();
        (quota, move |ms| begun + Duration::from_millis(ms))
    }

    fn wait_of(refused: Result<i32, IngestError>) -> i32 {
        match refused {
            Err(IngestError::Throttled { wait_ms, .. }) => wait_ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_rate_is_kept_and_the_credit_bounded() {
        let (quota, at) = quota(IngestLimits::default());
        for bytes in [1 << 40, 1 << 40, 1] {
            let admitted = quota.admit(bytes, 0, false, at(5));
            assert_eq!(admitted, Ok(0), "no bound by default");
        }
        quota.set(IngestLimits {
            staged_bytes_max: 10_000,
            ..limits(1_000, u64::MAX)
        });
        assert_eq!(quota.admit(500, 0, false, at(10_000)), Ok(500));
        assert_eq!(quota.admit(1_000, 0, false, at(10_000)), Ok(1_500));
        assert_eq!(wait_of(quota.admit(1, 0, false, at(10_000))), 500);
        assert_eq!(quota.admit(0, 0, false, at(10_600)), Ok(900));
        let later = quota.admit(100, 0, false, at(20_000));
        assert_eq!(later, Ok(100), "credit does not grow");
        let full = quota.admit(1, 10_000, false, at(30_000));
        assert!(full.is_err(), "staged bytes");
    }

    #[test]
    fn small_appends_in_quick_succession_add_up() {
        let (quota, at) = quota(limits(1_000_000, u64::MAX));
        let admitted = (0..10_000).filter(|ms| quota.admit(2_000, 0, false, at(*ms)).is_ok());
        // The rate admits this number of bytes in 10 s, plus the credit.
        let bytes = 2_000 * admitted.count();
        assert!((11_000_000..=11_010_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_request_that_was_read_earlier_is_no_step_back() {
        let (quota, at) = quota(limits(1_000, u64::MAX));
        assert_eq!(quota.admit(500, 0, false, at(10_000)), Ok(500));
        assert_eq!(quota.admit(100, 0, false, at(9_000)), Ok(600));
        let paid = quota.admit(0, 0, false, at(10_200));
        assert_eq!(paid, Ok(400), "the second before counts once");
    }

    #[test]
    fn a_raised_quota_holds_at_once_and_a_lowered_one_for_what_comes() {
        let (quota, at) = quota(limits(1_000, u64::MAX));
        assert_eq!(quota.admit(30_000, 0, false, at(0)), Ok(30_000));
        assert_eq!(wait_of(quota.admit(1, 0, false, at(0))), 29_000);
        quota.set(limits(10_000, u64::MAX));
        assert_eq!(wait_of(quota.admit(1, 0, false, at(0))), 2_000);
        quota.set(limits(u64::MAX, u64::MAX));
        assert_eq!(quota.admit(MIB, 0, false, at(0)), Ok(0));
        quota.set(limits(1_000, u64::MAX));
        let lowered = quota.admit(100, 0, false, at(0));
        assert_eq!(lowered, Ok(100), "what came without a bound owes nothing");
    }

    #[test]
    fn one_append_is_taken_whole_and_paid_within_a_minute() {
        let (quota, at) = quota(limits(1, u64::MAX));
        assert_eq!(quota.admit(100 * MIB, 0, false, at(0)), Ok(60_000));
        assert_eq!(wait_of(quota.admit(MIB, 0, false, at(0))), 59_000);
        assert_eq!(quota.admit(MIB, 0, false, at(59_000)), Ok(61_000));
    }

    #[test]
    fn beside_producers_the_smaller_rate_counts() {
        let (quota, at) = quota(IngestLimits::default());
        assert_eq!(quota.admit(1 << 40, 0, true, at(5)), Ok(0), "no bound");
        quota.set(limits(1_000, 100));
        assert_eq!(quota.admit(100, 0, false, at(10_000)), Ok(100));
        assert_eq!(quota.admit(100, 0, true, at(20_000)), Ok(1_000));
        assert_eq!(quota.admit(100, 0, true, at(20_000)), Ok(2_000));
        let refused = quota.admit(1, 0, true, at(20_000));
        let reason = refused.as_ref().expect_err("too early").to_string();
        assert!(reason.starts_with("ingest.quota.shared.bytes.per.second"));
        assert_eq!(wait_of(refused), 1_000);
        let alone = quota.admit(100, 0, false, at(20_000));
        assert_eq!(alone, Ok(300), "nobody produces any more");
        quota.set(limits(10, 100));
        assert_eq!(
            quota.admit(10, 0, true, at(30_000)),
            Ok(1_000),
            "never faster"
        );
    }
}
