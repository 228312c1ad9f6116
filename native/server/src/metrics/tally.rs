//! Metrics of one Produce, collected by the thread that appends.

use pybroker_model::TopicId;
use pybroker_protocol::{ApiKey, ErrorCode};

use super::{ThreadMetrics, TopicCounters, TopicsOfThread};

/// Counts of one Produce by topic.
#[derive(Default)]
pub(crate) struct Tally {
    topics: Vec<OfTopic>,
    errors: Vec<i16>,
}

/// Counts of requests and bytes of one topic. A request may name a topic that this broker does not know.
#[derive(Default)]
struct OfTopic {
    id: Option<TopicId>,
    requests: u64,
    failed: u64,
    messages: u64,
    bytes: u64,
    rejected_bytes: u64,
}

impl Tally {
    /// Start to count for this topic.
    #[inline]
    pub(crate) fn topic(&mut self, id: Option<TopicId>) {
        self.topics.push(OfTopic {
            id,
            ..OfTopic::default()
        });
    }

    #[inline]
    pub(crate) fn appended(&mut self, bytes: u64, messages: u64) {
        if let Some(topic) = self.topics.last_mut() {
            topic.requests += 1;
            topic.bytes += bytes;
            topic.messages += messages;
        }
    }

    pub(crate) fn refused(&mut self, error: ErrorCode, bytes: u64) {
        self.errors.push(error.0);
        if let Some(topic) = self.topics.last_mut() {
            topic.requests += 1;
            topic.failed += 1;
            if error == ErrorCode::MESSAGE_TOO_LARGE {
                topic.rejected_bytes += bytes;
            }
        }
    }

    /// Add the counts to the metrics of a data thread and clear the tally. `max` is `metrics.topics.max`.
    #[inline]
    pub(crate) fn note(
        &mut self,
        metrics: &ThreadMetrics,
        topics: &mut TopicsOfThread,
        max: usize,
    ) {
        for told in self.topics.drain(..) {
            metrics.produced_bytes.add(told.bytes);
            told.note(&metrics.topics);
            if let Some(counters) = told.id.and_then(|id| topics.of(id, max)) {
                told.note(counters);
            }
        }
        for error in self.errors.drain(..) {
            metrics.error(ApiKey::Produce.code(), error);
        }
    }
}

impl OfTopic {
    #[inline]
    fn note(&self, counters: &TopicCounters) {
        counters.produce_requests.add(self.requests);
        counters.messages_in.add(self.messages);
        counters.bytes_in.add(self.bytes);
        if self.failed > 0 {
            counters.failed_produce_requests.add(self.failed);
            counters.bytes_rejected.add(self.rejected_bytes);
        }
    }
}
