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

/// Maximum size of a request whose response is cached. A heartbeat without changes has some hundred bytes.
pub const REQUEST_BYTES_MAX: usize = 4 * 1024;

/// Maximum cached responses per connection; a client usually has one connection per member.
const RESPONSES_MAX: usize = 4;

/// Bit in `last_use` that marks an invalidated response.
const REVOKED: u64 = 1 << 63;

/// All cached responses of a broker.
#[derive(Debug, Clone, Default)]
pub struct CachedResponses {
    /// Number of global invalidations.
    generation: Arc<AtomicU64>,
}

impl CachedResponses {
    /// Invalidate all cached responses.
    pub fn invalidate_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Cache a response. Repeating it requires READ permission for `group`.
    pub fn cache(
        &self,
        key: ResponseKey,
        group: &str,
        body: Bytes,
        now: Instant,
    ) -> Arc<CachedResponse> {
        Arc::new(CachedResponse {
            key,
            group: group.into(),
            body,
            lease: Lease::new(self, now),
        })
    }
}

/// Validity of a cached response or delegation, and the time of its last use.
#[derive(Debug)]
pub(crate) struct Lease {
    current: Arc<AtomicU64>,
    generation: u64,
    issued: Instant,
    /// Milliseconds from `issued` to the last use, and [`REVOKED`].
    last_use: AtomicU64,
}

impl Lease {
    pub(crate) fn new(all: &CachedResponses, now: Instant) -> Self {
        Lease {
            current: Arc::clone(&all.generation),
            generation: all.generation.load(Ordering::Acquire),
            issued: now,
            last_use: AtomicU64::new(0),
        }
    }

    /// Return whether the lease is valid; if so, record a use.
    pub(crate) fn record_use(&self, now: Instant) -> bool {
        if self.current.load(Ordering::Acquire) != self.generation {
            return false;
        }
        let at = now.saturating_duration_since(self.issued).as_millis() as u64;
        let recorded =
            self.last_use
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last_use| {
                    (last_use & REVOKED == 0).then_some(last_use.max(at))
                });
        recorded.is_ok()
    }

    pub(crate) fn revoke(&self) {
        self.last_use.fetch_or(REVOKED, Ordering::AcqRel);
    }

    /// Return the time since the last use.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        let last_use = self.last_use.load(Ordering::Acquire) & !REVOKED;
        now.saturating_duration_since(self.issued + Duration::from_millis(last_use))
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.current.load(Ordering::Acquire) == self.generation
            && self.last_use.load(Ordering::Acquire) & REVOKED == 0
    }
}

/// Key of a cached response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseKey {
    /// The request's API key.
    pub api_key: i16,
    /// The request's version.
    pub api_version: i16,
    /// The request's body.
    pub body: Bytes,
}

/// A response that data threads may repeat.
#[derive(Debug)]
pub struct CachedResponse {
    key: ResponseKey,
    group: Box<str>,
    body: Bytes,
    lease: Lease,
}

impl CachedResponse {
    /// Return the response body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    fn matches(&self, api_key: i16, api_version: i16, body: &[u8]) -> bool {
        self.key.api_key == api_key
            && self.key.api_version == api_version
            && *self.key.body == *body
    }

    /// Return whether the response may be repeated; if so, the request counts as a heartbeat.
    pub(crate) fn repeat(&self, now: Instant) -> bool {
        self.lease.record_use(now)
    }

    /// Invalidate the response.
    pub fn invalidate(&self) {
        self.lease.revoke();
    }

    /// Return the time since the last request that this response answered.
    pub fn idle(&self, now: Instant) -> Duration {
        self.lease.idle(now)
    }

    fn is_valid(&self) -> bool {
        self.lease.is_valid()
    }
}

/// Cached responses of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionResponses(Vec<Arc<CachedResponse>>);

impl ConnectionResponses {
    /// Add a response. If there are too many, remove an invalidated one, or else the oldest.
    pub(crate) fn insert(&mut self, response: Arc<CachedResponse>) {
        self.0
            .retain(|cached| cached.key != response.key && cached.is_valid());
        if self.0.len() == RESPONSES_MAX {
            self.0.remove(0);
        }
        self.0.push(response);
    }

    /// Return the cached response to a request, without checking its validity.
    #[inline]
    pub(crate) fn find(
        &self,
        api_key: i16,
        api_version: i16,
        body: &[u8],
    ) -> Option<&Arc<CachedResponse>> {
        self.0
            .iter()
            .find(|cached| cached.matches(api_key, api_version, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &'static [u8]) -> ResponseKey {
        ResponseKey {
            api_key: 12,
            api_version: 4,
            body: Bytes::from_static(body),
        }
    }

    #[test]
    fn an_answer_stands_until_it_is_taken_back() {
        let (all, start) = (CachedResponses::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let one = all.cache(request(b"a"), "g", Bytes::from_static(b"ok"), start);
        let other = all.cache(request(b"b"), "g", Bytes::from_static(b"ok"), start);
        assert!(one.repeat(at(30)) && one.repeat(at(20)) && other.repeat(at(10)));
        assert_eq!(one.idle(at(100)), Duration::from_millis(70));
        one.invalidate();
        assert!(!one.repeat(at(50)), "nor does it count as heard");
        assert_eq!(one.idle(at(100)), Duration::from_millis(70));
        assert!(other.repeat(at(60)));
        all.invalidate_all();
        assert!(!other.repeat(at(70)));
        assert_eq!(other.idle(at(100)), Duration::from_millis(40));
        assert!(
            all.cache(request(b"b"), "g", Bytes::new(), start)
                .repeat(at(80))
        );
    }

    #[test]
    fn a_connection_keeps_few_and_those_that_stand() {
        let (all, now) = (CachedResponses::default(), Instant::now());
        let cache = |body| all.cache(request(body), "g", Bytes::new(), now);
        let mut kept = ConnectionResponses::default();
        let (first, second) = (cache(b"1"), cache(b"2"));
        kept.insert(Arc::clone(&first));
        kept.insert(second);
        kept.insert(cache(b"1"));
        assert_eq!(kept.0.len(), 2, "the same request has one answer");
        assert!(
            kept.find(12, 4, b"1")
                .is_some_and(|one| !Arc::ptr_eq(one, &first))
        );
        assert!(kept.find(12, 3, b"1").is_none() && kept.find(68, 4, b"1").is_none());
        assert!(kept.find(12, 4, b"11").is_none() && kept.find(12, 4, b"").is_none());
        for body in [&b"3"[..], b"4", b"5"] {
            kept.insert(cache(body));
        }
        assert_eq!(kept.0.len(), RESPONSES_MAX);
        assert!(kept.find(12, 4, b"2").is_none(), "what came first has gone");
        kept.0[1].invalidate();
        kept.insert(cache(b"6"));
        assert_eq!(kept.0.len(), RESPONSES_MAX);
        all.invalidate_all();
        kept.insert(cache(b"7"));
        assert_eq!(kept.0.len(), 1);
    }

    #[test]
    fn nothing_is_repeated_after_it_was_taken_back_and_nothing_heard_is_lost() {
        let (all, start) = (CachedResponses::default(), Instant::now());
        for _ in 0..200 {
            let one = all.cache(request(b"a"), "g", Bytes::new(), start);
            let last = std::thread::scope(|scope| {
                let beats = scope.spawn(|| {
                    let mut last = 0;
                    while one.repeat(start + Duration::from_millis(last + 1)) {
                        last += 1;
                    }
                    last
                });
                std::thread::yield_now();
                one.invalidate();
                beats.join().expect("it ends")
            });
            let end = start + Duration::from_millis(last + 5);
            assert_eq!(one.idle(end), Duration::from_millis(5));
        }
    }
}
