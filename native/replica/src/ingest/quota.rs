//! How much may be staged, and how fast: other producers share the disk and the cores.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::IngestError;

/// Appends are taken on credit up to so much of a second's rate.
const CREDIT_MS: i64 = 1_000;
/// When to come again after the disk's share is used up: commits, aborts and expiry make room.
const FULL_WAIT_MS: i32 = 1_000;

/// The broker's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestLimits {
    /// `ingest.quota.bytes.per.second`, all ingests together.
    pub bytes_per_second: u64,
    /// `ingest.quota.shared.bytes.per.second`: all ingests together, while somebody produces.
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

/// A bucket that runs full: `due_ms` is when the bytes taken so far would have come at the rate.
#[derive(Debug)]
pub(super) struct Quota {
    bytes_per_second: AtomicU64,
    shared_bytes_per_second: AtomicU64,
    staged_bytes_max: AtomicU64,
    attempts_max: AtomicUsize,
    copy_bytes_max: AtomicU64,
    cached_bytes_max: AtomicU64,
    due_us: Mutex<i64>,
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
            due_us: Mutex::new(0),
        }
    }
}

impl Quota {
    pub(super) fn set(&self, limits: IngestLimits) {
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

    /// Up to how many bytes a commit is copied into a log instead of linked.
    pub(super) fn copy_bytes_max(&self) -> u64 {
        self.copy_bytes_max.load(Relaxed)
    }

    /// Up to how many bytes of a segment are staged through the page cache.
    pub(super) fn cached_bytes_max(&self) -> u64 {
        self.cached_bytes_max.load(Relaxed)
    }

    /// How many attempts may have staged something, each counted for each partition.
    pub(super) fn attempts_max(&self) -> usize {
        self.attempts_max.load(Relaxed)
    }

    /// Takes `bytes` on, or says when they may come; on success, how long the client shall wait before the next.
    /// `shared`: somebody produces at present.
    pub(super) fn admit(
        &self,
        bytes: u64,
        staged: u64,
        shared: bool,
        now_ms: i64,
    ) -> Result<i32, IngestError> {
        if staged.saturating_add(bytes) > self.staged_bytes_max.load(Relaxed) {
            return Err(IngestError::Throttled {
                reason: "ingest.staged.bytes.max are staged; nothing was staged of this request",
                wait_ms: FULL_WAIT_MS,
            });
        }
        let (rate, used_up) = self.rate(shared);
        let now_us = now_ms.saturating_mul(1_000);
        let mut due_us = self.due_us.lock();
        let behind_ms = due_us.saturating_sub(now_us) / 1_000;
        if behind_ms > CREDIT_MS {
            return Err(IngestError::Throttled {
                reason: used_up,
                wait_ms: i32::try_from(behind_ms - CREDIT_MS)
                    .unwrap_or(i32::MAX)
                    .max(1),
            });
        }
        let cost_us = u128::from(bytes) * 1_000_000 / u128::from(rate);
        let cost_us = i64::try_from(cost_us).unwrap_or(i64::MAX);
        *due_us = (*due_us).max(now_us).saturating_add(cost_us);
        let behind_ms = due_us.saturating_sub(now_us) / 1_000;
        Ok(i32::try_from(behind_ms).unwrap_or(i32::MAX))
    }

    /// Bytes a second now, and what to say of a client that is too fast.
    fn rate(&self, shared: bool) -> (u64, &'static str) {
        let rate = self.bytes_per_second.load(Relaxed);
        let with_producers = self.shared_bytes_per_second.load(Relaxed);
        if shared && with_producers < rate {
            let used_up = "ingest.quota.shared.bytes.per.second is used up, others produce; nothing was staged of this request";
            return (with_producers, used_up);
        }
        let used_up =
            "ingest.quota.bytes.per.second is used up; nothing was staged of this request";
        (rate, used_up)
    }
}

/// For an attempt that is one too many.
pub(super) const fn too_many_attempts() -> IngestError {
    IngestError::Throttled {
        reason: "ingest.attempts.max attempts have staged something; nothing was staged for this partition",
        wait_ms: FULL_WAIT_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_the_credit_bounded() {
        let quota = Quota::default();
        assert_eq!(
            quota.admit(1 << 40, 0, false, 5),
            Ok(0),
            "no bound by default"
        );
        quota.set(IngestLimits {
            bytes_per_second: 1_000,
            staged_bytes_max: 10_000,
            ..IngestLimits::default()
        });
        assert_eq!(quota.admit(500, 0, false, 10_000), Ok(500));
        assert_eq!(quota.admit(1_000, 0, false, 10_000), Ok(1_500));
        let refused = quota.admit(1, 0, false, 10_000);
        assert!(matches!(
            refused,
            Err(IngestError::Throttled { wait_ms: 500, .. })
        ));
        assert_eq!(quota.admit(0, 0, false, 10_600), Ok(900));
        assert_eq!(
            quota.admit(100, 0, false, 20_000),
            Ok(100),
            "credit does not grow"
        );
        assert!(
            quota.admit(1, 10_000, false, 30_000).is_err(),
            "staged bytes"
        );
    }

    #[test]
    fn beside_producers_the_smaller_rate_counts() {
        let quota = Quota::default();
        assert_eq!(quota.admit(1 << 40, 0, true, 5), Ok(0), "no bound");
        let limits = IngestLimits {
            bytes_per_second: 1_000,
            shared_bytes_per_second: 100,
            ..IngestLimits::default()
        };
        quota.set(limits);
        assert_eq!(quota.admit(100, 0, false, 10_000), Ok(100));
        assert_eq!(quota.admit(100, 0, true, 20_000), Ok(1_000));
        assert_eq!(quota.admit(100, 0, true, 20_000), Ok(2_000));
        let Err(IngestError::Throttled { reason, wait_ms }) = quota.admit(1, 0, true, 20_000)
        else {
            panic!("admitted");
        };
        assert_eq!(wait_ms, 1_000);
        assert!(reason.starts_with("ingest.quota.shared.bytes.per.second"));
        quota.set(IngestLimits {
            bytes_per_second: 10,
            ..limits
        });
        assert_eq!(quota.admit(10, 0, true, 30_000), Ok(1_000), "never faster");
    }
}
