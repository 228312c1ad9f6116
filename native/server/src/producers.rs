//! Whether somebody produces at present: bulk loads then keep to their share (`ingest.quota.shared.bytes.per.second`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::metrics::ThreadMetrics;

/// For how long after the last answer somebody still produces.
const QUIET: Duration = Duration::from_secs(1);

/// See the module. Asked once for each staged append; producers pay nothing for it.
pub(crate) struct Producers {
    threads: Vec<Arc<ThreadMetrics>>,
    /// Produce requests answered so far, and when that number was last seen to have grown.
    seen: Mutex<(u64, Option<Instant>)>,
}

impl Producers {
    /// `threads`: what counts the requests of each data thread.
    pub(crate) fn new(threads: Vec<Arc<ThreadMetrics>>) -> Self {
        Self {
            threads,
            seen: Mutex::default(),
        }
    }

    /// Whether a produce request was answered lately.
    pub(crate) fn are_served(&self, now: Instant) -> bool {
        let threads = self.threads.iter();
        let answered = threads.map(|one| one.produced_requests()).sum();
        let mut seen = self.seen.lock();
        if seen.0 != answered {
            *seen = (answered, Some(now));
        }
        seen.1
            .is_some_and(|since| now.saturating_duration_since(since) < QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_protocol::ApiKey;

    #[test]
    fn who_was_answered_lately_produces_and_others_do_not_count() {
        let threads = [ThreadMetrics::new(), ThreadMetrics::new()];
        let producers = Producers::new(threads.to_vec());
        let mut now = Instant::now();
        assert!(!producers.are_served(now), "nobody has been there");
        for key in [ApiKey::IngestAppend, ApiKey::Metadata, ApiKey::Fetch] {
            threads[0].request(key.code(), Duration::ZERO);
        }
        assert!(!producers.are_served(now));
        for thread in &threads {
            thread.request(ApiKey::Produce.code(), Duration::ZERO);
            assert!(producers.are_served(now));
            assert!(producers.are_served(now + QUIET / 2));
            now += QUIET;
            assert!(!producers.are_served(now));
        }
    }
}
