//! Timestamps of one request, from its last byte to the last byte of its reply.

use std::time::Instant;

use super::{STAGES, ThreadMetrics, micros_of};

/// Timestamps of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    /// When the last byte of the frame arrived.
    pub(crate) received: Instant,
    /// When processing started.
    pub(crate) began: Instant,
    /// Time at which the request started to wait; `None` if it did not wait.
    pub(crate) waits: Option<Instant>,
    /// Time at which the reply was ready; `None` if that is the time at which it was written.
    pub(crate) ready: Option<Instant>,
}

impl Moments {
    pub(crate) fn new(received: Instant, began: Instant) -> Self {
        Moments {
            received,
            began,
            waits: None,
            ready: None,
        }
    }
}

/// A request whose reply is in the output of its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredRequest {
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) moments: Moments,
    /// When the reply was written to the output.
    pub(crate) written: Instant,
}

/// Microseconds of each stage, in the order of [`STAGES`], and in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) stages: [u64; STAGES.len()],
    pub(crate) total: u64,
}

impl AnsweredRequest {
    fn split(&self, sent: Instant) -> Split {
        let Moments {
            received,
            began,
            waits,
            ready,
        } = self.moments;
        let ready = ready.unwrap_or(self.written);
        let waits = waits.unwrap_or(ready);
        let between = |from: Instant, to: Instant| micros_of(to.saturating_duration_since(from));
        Split {
            stages: [
                between(received, began),
                between(began, waits),
                between(waits, ready),
                between(ready, self.written),
                between(self.written, sent),
            ],
            total: between(received, sent),
        }
    }
}

/// Requests whose replies the kernel has not received completely.
#[derive(Debug, Default)]
pub(crate) struct UnsentReplies(Vec<AnsweredRequest>);

/// Maximum number of entries per connection. Further replies count as sent at once.
const UNSENT_MAX: usize = 256;

impl UnsentReplies {
    #[inline]
    pub(crate) fn push(&mut self, answered: AnsweredRequest) {
        self.0.push(answered);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Move the entries of `other` to this list.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= UNSENT_MAX
    }

    /// Count the times of all entries, whose replies were sent, and call `slow` for each that took `slow_micros` or
    /// longer.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        metrics: &ThreadMetrics,
        now: Instant,
        slow_micros: u64,
        mut slow: impl FnMut(&AnsweredRequest, &Split),
    ) {
        for answered in self.0.drain(..) {
            let split = answered.split(now);
            metrics.of_key(answered.api_key).record(&split);
            if split.total >= slow_micros {
                slow(&answered, &split);
            }
        }
    }
}

impl ThreadMetrics {
    /// Count a request that is answered now (or, for acks=0, done).
    #[inline]
    pub(crate) fn count_answer(&self, answered: &AnsweredRequest) {
        self.of_key(answered.api_key).version(answered.version);
        self.note_answer(answered.api_key, answered.written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RequestMetrics;
    use pybroker_storage::Counts;
    use std::time::Duration;

    #[test]
    fn the_stages_add_up_to_the_whole() {
        let at = Instant::now();
        let after = |ms| at + Duration::from_millis(ms);
        let answered = AnsweredRequest {
            api_key: 0,
            version: 9,
            moments: Moments {
                received: at,
                began: after(1),
                waits: Some(after(3)),
                ready: Some(after(7)),
            },
            written: after(12),
        };
        let split = answered.split(after(22));
        assert_eq!(split.stages, [1_000, 2_000, 4_000, 5_000, 10_000]);
        assert_eq!(split.total, split.stages.iter().sum::<u64>());
        let simple = AnsweredRequest {
            moments: Moments::new(at, at),
            ..answered
        };
        assert_eq!(simple.split(after(12)).stages, [0, 12_000, 0, 0, 0]);
    }

    #[test]
    fn every_request_is_in_every_stage() {
        let metrics = RequestMetrics::default();
        for stages in [[0, 12, 0, 0, 0], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]] {
            let total = stages.iter().sum();
            metrics.record(&Split { stages, total });
        }
        for (at, (stage, ..)) in STAGES.iter().enumerate() {
            let mut counts = Counts::default();
            metrics.add_stage_to(*stage, &mut counts);
            let sum = [1, 14, 3, 4, 5][at];
            assert_eq!((counts.count(), counts.sum), (3, sum), "{stage:?}");
            let zeros = [2, 1, 2, 2, 2][at];
            assert_eq!(counts.below(1), zeros, "{stage:?}");
        }
    }
}
