//! Kafka's token bucket for partition creations and deletions (KIP-599, `TokenBucket` of its clients).

use std::time::Instant;

/// Tokens of one entity. The balance may become negative, because an operation is admitted completely and paid for
/// later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Create a full bucket.
    pub(super) fn new(burst: f64, now: Instant) -> Self {
        Bucket {
            tokens: burst,
            at: now,
        }
    }

    /// Add the tokens for the time since the last refill.
    fn refill(&mut self, rate: f64, burst: f64, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate).min(burst);
        self.at = self.at.max(now);
    }

    /// Take tokens and return the throttle time in milliseconds: the time until the balance is zero again. With
    /// `strict`, return `Err` and take nothing while the balance is negative; an admitted request then does not wait.
    pub(super) fn take(
        &mut self,
        tokens: f64,
        (rate, burst): (f64, f64),
        strict: bool,
        now: Instant,
    ) -> Result<u32, u32> {
        self.refill(rate, burst, now);
        if strict && self.tokens < 0.0 {
            return Err(self.owed_ms(rate));
        }
        self.tokens -= tokens;
        Ok(if strict { 0 } else { self.owed_ms(rate) })
    }

    fn owed_ms(&self, rate: f64) -> u32 {
        if self.tokens >= 0.0 {
            return 0;
        }
        // Return at least 1, so that a refused client waits. The response field is an INT.
        (-self.tokens / rate * 1e3)
            .round()
            .clamp(1.0, f64::from(i32::MAX)) as u32
    }

    /// Return whether the bucket is full, so that it can be dropped without effect.
    pub(super) fn is_full(&mut self, rate: f64, burst: f64, now: Instant) -> bool {
        self.refill(rate, burst, now);
        self.tokens >= burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMIT: (f64, f64) = (2.0, 20.0);

    #[test]
    fn a_burst_goes_and_what_is_owed_is_waited_for() {
        let now = Instant::now();
        let mut bucket = Bucket::new(20.0, now);
        assert_eq!(bucket.take(20.0, LIMIT, true, now), Ok(0));
        // The balance is not negative, so the next request is admitted completely, even if it is very large.
        assert_eq!(bucket.take(30.0, LIMIT, true, now), Ok(0));
        assert_eq!(bucket.take(1.0, LIMIT, true, now), Err(15_000));
        assert_eq!(
            bucket.take(1.0, LIMIT, false, now),
            Ok(15_500),
            "older versions"
        );
        let later = now + Duration::from_millis(15_500);
        assert_eq!(bucket.take(1.0, LIMIT, true, later), Ok(0));
        assert_eq!(bucket.take(1.0, LIMIT, true, later), Err(500));
        assert!(bucket.is_full(2.0, 20.0, later + Duration::from_secs(11)));
    }

    #[test]
    fn a_step_back_in_time_gives_nothing() {
        let now = Instant::now() + Duration::from_secs(10);
        let mut bucket = Bucket::new(0.0, now);
        assert_eq!(
            bucket.take(2.0, LIMIT, false, now - Duration::from_secs(5)),
            Ok(1_000)
        );
        assert_eq!(bucket.take(0.0, LIMIT, false, now), Ok(1_000));
    }
}
