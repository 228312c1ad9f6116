//! Detection of active producers: bulk loads then stay within their share (`ingest.quota.shared.bytes.per.second`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::ThreadMetrics;

/// Producers count as active for this long after the last answer.
const QUIET: Duration = Duration::from_secs(1);

/// Activity of producers. Checked once for each staged append.
pub(crate) struct Producers {
    threads: Vec<Arc<ThreadMetrics>>,
}

impl Producers {
    /// Create the check. `threads`: the metrics of each data thread.
    pub(crate) const fn new(threads: Vec<Arc<ThreadMetrics>>) -> Self {
        Self { threads }
    }

    /// Return whether a Produce request was answered recently.
    pub(crate) fn are_served(&self, now: Instant) -> bool {
        let mut answered = self.threads.iter().filter_map(|one| one.last_produce());
        answered.any(|then| now.saturating_duration_since(then) < QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{AnsweredRequest, Moments};
    use pybroker_protocol::ApiKey;

    fn answer(thread: &ThreadMetrics, key: ApiKey, now: Instant) {
        thread.count_answer(&AnsweredRequest {
            api_key: key.code(),
            version: 0,
            moments: Moments::new(now, now),
            written: Instant::now(),
        });
    }

    #[test]
    fn who_was_answered_lately_produces_and_others_do_not_count() {
        let threads = [ThreadMetrics::new(), ThreadMetrics::new()];
        let producers = Producers::new(threads.to_vec());
        let now = Instant::now();
        assert!(!producers.are_served(now), "nobody has been there");
        for key in [ApiKey::IngestAppend, ApiKey::Metadata, ApiKey::Fetch] {
            answer(&threads[0], key, now);
        }
        assert!(!producers.are_served(now));
        for thread in &threads {
            answer(thread, ApiKey::Produce, now);
            let now = Instant::now();
            assert!(producers.are_served(now));
            assert!(producers.are_served(now + QUIET / 2));
            // `QUIET` after the last answer, producers are no longer active. Answer times are stored in whole
            // microseconds, so add one.
            assert!(!producers.are_served(now + QUIET + Duration::from_micros(1)));
        }
    }
}
