//! Cached responses: data threads repeat a response of the control plane for identical requests until it is
//! invalidated. Most heartbeats of group members change nothing; with the cache they bypass the queue and Python.
//!
//! A cached response belongs to its connection and matches requests with the same key, version and body; each request
//! is authorized again. The control plane invalidates it alone before its group changes, or together with all others
//! before data that all responses depend on changes (metadata, settings). The thread that makes the change invalidates
//! first, before the change becomes visible.
//!
//! A data thread checks validity and records the time of use in one atomic step. No response is therefore repeated
//! after its invalidation, and the invalidation returns when the member was last heard from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Larger requests are not cached: a heartbeat without changes has some hundred bytes.
pub const REQUEST_BYTES_MAX: usize = 4 * 1024;

/// Maximum cached responses per connection; a client usually has one connection per member.
const KEPT_MAX: usize = 4;

/// Bit in `heard` that marks an invalidated response.
const TAKEN_BACK: u64 = 1 << 63;

/// All cached responses of a broker.
#[derive(Debug, Clone, Default)]
pub struct StandingAnswers {
    /// Number of global invalidations.
    age: Arc<AtomicU64>,
}

impl StandingAnswers {
    /// Invalidate all cached responses.
    pub fn take_all_back(&self) {
        self.age.fetch_add(1, Ordering::AcqRel);
    }

    /// Cache a response. Repeating it requires READ permission for `group`.
    pub fn give(
        &self,
        request: StandingRequest,
        group: &str,
        answer: Bytes,
        now: Instant,
    ) -> Arc<StandingAnswer> {
        Arc::new(StandingAnswer {
            request,
            group: group.into(),
            answer,
            stands: Stands::new(self, now),
        })
    }
}

/// Validity of something that the control plane issued, and the time of its last use.
#[derive(Debug)]
pub(crate) struct Stands {
    ages: Arc<AtomicU64>,
    age: u64,
    given: Instant,
    /// Milliseconds from `given` to the last use, and [`TAKEN_BACK`].
    heard: AtomicU64,
}

impl Stands {
    pub(crate) fn new(all: &StandingAnswers, now: Instant) -> Self {
        Stands {
            ages: Arc::clone(&all.age),
            age: all.age.load(Ordering::Acquire),
            given: now,
            heard: AtomicU64::new(0),
        }
    }

    /// Return whether it is valid; if so, record a use.
    pub(crate) fn again(&self, now: Instant) -> bool {
        if self.ages.load(Ordering::Acquire) != self.age {
            return false;
        }
        let at = now.saturating_duration_since(self.given).as_millis() as u64;
        let noted = self
            .heard
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |heard| {
                (heard & TAKEN_BACK == 0).then_some(heard.max(at))
            });
        noted.is_ok()
    }

    pub(crate) fn take_back(&self) {
        self.heard.fetch_or(TAKEN_BACK, Ordering::AcqRel);
    }

    /// Return the time since the last use.
    pub(crate) fn silent(&self, now: Instant) -> Duration {
        let heard = self.heard.load(Ordering::Acquire) & !TAKEN_BACK;
        now.saturating_duration_since(self.given + Duration::from_millis(heard))
    }

    pub(crate) fn holds(&self) -> bool {
        self.ages.load(Ordering::Acquire) == self.age
            && self.heard.load(Ordering::Acquire) & TAKEN_BACK == 0
    }
}

/// Key of a cached response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingRequest {
    /// Which request.
    pub api_key: i16,
    /// Its version.
    pub api_version: i16,
    /// Its body.
    pub body: Bytes,
}

/// A response that data threads may repeat.
#[derive(Debug)]
pub struct StandingAnswer {
    request: StandingRequest,
    group: Box<str>,
    answer: Bytes,
    stands: Stands,
}

impl StandingAnswer {
    /// Return the response body.
    pub fn body(&self) -> &Bytes {
        &self.answer
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    fn answers(&self, api_key: i16, api_version: i16, body: &[u8]) -> bool {
        self.request.api_key == api_key
            && self.request.api_version == api_version
            && *self.request.body == *body
    }

    /// Return whether the response may be repeated; if so, the request counts as a heartbeat.
    pub(crate) fn repeat(&self, now: Instant) -> bool {
        self.stands.again(now)
    }

    /// Invalidate the response.
    pub fn take_back(&self) {
        self.stands.take_back();
    }

    /// Return the time since the last such request.
    pub fn silent(&self, now: Instant) -> Duration {
        self.stands.silent(now)
    }

    fn stands(&self) -> bool {
        self.stands.holds()
    }
}

/// Cached responses of one connection.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<Arc<StandingAnswer>>);

impl Kept {
    /// Add a response; evict an invalidated one, else the oldest.
    pub(crate) fn keep(&mut self, answer: Arc<StandingAnswer>) {
        self.0
            .retain(|one| one.request != answer.request && one.stands());
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(answer);
    }

    /// Return the cached response to a request, without checking its validity.
    #[inline]
    pub(crate) fn find(
        &self,
        api_key: i16,
        api_version: i16,
        body: &[u8],
    ) -> Option<&Arc<StandingAnswer>> {
        self.0
            .iter()
            .find(|one| one.answers(api_key, api_version, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &'static [u8]) -> StandingRequest {
        StandingRequest {
            api_key: 12,
            api_version: 4,
            body: Bytes::from_static(body),
        }
    }

    #[test]
    fn an_answer_stands_until_it_is_taken_back() {
        let (all, start) = (StandingAnswers::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let one = all.give(request(b"a"), "g", Bytes::from_static(b"ok"), start);
        let other = all.give(request(b"b"), "g", Bytes::from_static(b"ok"), start);
        assert!(one.repeat(at(30)) && one.repeat(at(20)) && other.repeat(at(10)));
        assert_eq!(one.silent(at(100)), Duration::from_millis(70));
        one.take_back();
        assert!(!one.repeat(at(50)), "nor does it count as heard");
        assert_eq!(one.silent(at(100)), Duration::from_millis(70));
        assert!(other.repeat(at(60)));
        all.take_all_back();
        assert!(!other.repeat(at(70)));
        assert_eq!(other.silent(at(100)), Duration::from_millis(40));
        assert!(
            all.give(request(b"b"), "g", Bytes::new(), start)
                .repeat(at(80))
        );
    }

    #[test]
    fn a_connection_keeps_few_and_those_that_stand() {
        let (all, now) = (StandingAnswers::default(), Instant::now());
        let give = |body| all.give(request(body), "g", Bytes::new(), now);
        let mut kept = Kept::default();
        let (first, second) = (give(b"1"), give(b"2"));
        kept.keep(Arc::clone(&first));
        kept.keep(second);
        kept.keep(give(b"1"));
        assert_eq!(kept.0.len(), 2, "the same request has one answer");
        assert!(
            kept.find(12, 4, b"1")
                .is_some_and(|one| !Arc::ptr_eq(one, &first))
        );
        assert!(kept.find(12, 3, b"1").is_none() && kept.find(68, 4, b"1").is_none());
        assert!(kept.find(12, 4, b"11").is_none() && kept.find(12, 4, b"").is_none());
        for body in [&b"3"[..], b"4", b"5"] {
            kept.keep(give(body));
        }
        assert_eq!(kept.0.len(), KEPT_MAX);
        assert!(kept.find(12, 4, b"2").is_none(), "what came first has gone");
        kept.0[1].take_back();
        kept.keep(give(b"6"));
        assert_eq!(kept.0.len(), KEPT_MAX);
        all.take_all_back();
        kept.keep(give(b"7"));
        assert_eq!(kept.0.len(), 1);
    }

    #[test]
    fn nothing_is_repeated_after_it_was_taken_back_and_nothing_heard_is_lost() {
        let (all, start) = (StandingAnswers::default(), Instant::now());
        for _ in 0..200 {
            let one = all.give(request(b"a"), "g", Bytes::new(), start);
            let last = std::thread::scope(|scope| {
                let beats = scope.spawn(|| {
                    let mut last = 0;
                    while one.repeat(start + Duration::from_millis(last + 1)) {
                        last += 1;
                    }
                    last
                });
                std::thread::yield_now();
                one.take_back();
                beats.join().expect("it ends")
            });
            let end = start + Duration::from_millis(last + 5);
            assert_eq!(one.silent(end), Duration::from_millis(5));
        }
    }
}
