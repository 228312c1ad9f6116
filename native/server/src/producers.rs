//! Whether somebody produces at present: bulk loads then keep to their share (`ingest.quota.shared.bytes.per.second`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::ThreadMetrics;

/// For how long after the last answer somebody still produces.
const QUIET: Duration = Duration::from_secs(1);

/// See the module. Asked once for each staged append.
pub(crate) struct Producers {
    threads: Vec<Arc<ThreadMetrics>>,
}

impl Producers {
    /// `threads`: what each data thread knows of its requests.
    pub(crate) const fn new(threads: Vec<Arc<ThreadMetrics>>) -> Self {
        Self { threads }
    }

    /// Whether a produce request was answered lately.
    pub(crate) fn are_served(&self, now: Instant) -> bool {
        let mut answered = self.threads.iter().filter_map(|one| one.last_produce());
        answered.any(|then| now.saturating_duration_since(then) < QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Answered, Moments};
    use pybroker_protocol::ApiKey;

    fn answer(thread: &ThreadMetrics, key: ApiKey, now: Instant) {
        thread.count_answer(&Answered {
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
            // Nor does it matter that this is the first question since: a load that begins later is alone. The answer's
            // time is kept in whole microseconds, of which there is at least one.
            assert!(!producers.are_served(now + QUIET + Duration::from_micros(1)));
        }
    }
}
