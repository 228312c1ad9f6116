//! Quotas of one connection, and its mute: as in Kafka, the broker answers at once with a throttle time and does not
//! read from the connection until that time has passed (KIP-219).
//!
//! Only the connection's own task uses this object.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pybroker_protocol::ApiKey;

use crate::quotas::{ClientQuotas, Quotas, clipped};

/// Unreported thread time from which the connection reports it immediately, instead of with the next request.
const UNREPORTED_NANOS_MAX: u64 = 100_000;

/// Quota state of one connection.
#[derive(Default)]
pub(crate) struct ConnectionQuotas {
    cached: RefCell<CachedQuotas>,
    timed: Cell<bool>,
    /// Nanoseconds of thread time that are not reported yet. They are reported with the next request, when there are
    /// many, or when the connection closes.
    unreported: Cell<u64>,
    muted_until: Cell<Option<Instant>>,
}

#[derive(Default)]
struct CachedQuotas {
    client: ClientQuotas,
    client_id: Box<str>,
}

impl ConnectionQuotas {
    /// Forget the quotas, because the connection has another user.
    pub(crate) fn forget(&mut self) {
        self.report(Instant::now());
        *self.cached.get_mut() = CachedQuotas::default();
        self.timed.set(false);
    }

    /// Look up the quotas, unless they were looked up for this client id and version of the table.
    fn resolve(&self, quotas: &Quotas, principal: &str, client_id: &str, now: Instant) {
        let client_id = clipped(client_id);
        {
            let known = self.cached.borrow();
            if known.client.version == quotas.version() && &*known.client_id == client_id {
                return;
            }
        }
        self.report(now);
        let mut cached = self.cached.borrow_mut();
        let user = principal
            .split_once(':')
            .map_or(principal, |(_, name)| name);
        cached.client = quotas.look_up(user, client_id, now);
        if &*cached.client_id != client_id {
            cached.client_id = client_id.into();
        }
        self.timed.set(cached.client.request.is_some());
    }

    /// Count a request, given as its API and its size in bytes. Return the throttle time of its response in milliseconds;
    /// the connection is muted for that time after the response.
    pub(crate) fn arrived(
        &self,
        quotas: &Quotas,
        who: (&str, &str),
        request: (ApiKey, usize),
        now: Instant,
    ) -> i32 {
        let (principal, client_id) = who;
        let (key, bytes) = request;
        self.resolve(quotas, principal, client_id, now);
        let client = &self.cached.borrow().client;
        let mut wait = match &client.produce {
            Some(produce) if key == ApiKey::Produce => produce.record(bytes as u64, now),
            _ => 0,
        };
        if let Some(request) = &client.request {
            wait = wait.max(request.record(self.unreported.take(), now));
        }
        self.mute(wait, now)
    }

    /// Count record bytes of a Fetch response. If they exceed the quota, return the throttle time in milliseconds for
    /// an empty response.
    pub(crate) fn fetched(&self, bytes: usize, now: Instant) -> Option<i32> {
        let cached = self.cached.borrow();
        let fetch = cached.client.fetch.as_ref()?;
        let wait = fetch.admit(bytes as u64, now).err()?;
        Some(self.mute(wait, now))
    }

    /// Return the maximum record bytes of one Fetch response.
    pub(crate) fn fetch_bytes_max(&self) -> Option<usize> {
        let cached = self.cached.borrow();
        Some(cached.client.fetch.as_ref()?.burst())
    }

    /// Mute the connection for `wait_ms` milliseconds.
    pub(crate) fn mute(&self, wait_ms: u32, now: Instant) -> i32 {
        if wait_ms > 0 {
            let until = now + Duration::from_millis(wait_ms.into());
            self.muted_until
                .set(self.muted_until.get().max(Some(until)));
        }
        i32::try_from(wait_ms).unwrap_or(i32::MAX)
    }

    /// Return the time until which the connection is muted.
    #[inline]
    pub(crate) fn muted_until(&self) -> Option<Instant> {
        self.muted_until.get()
    }

    /// Return whether the connection is still muted. The mute ends when its time has passed or the client's quotas
    /// change. Does not change the usage counters.
    pub(crate) fn stays_muted(&self, quotas: &Quotas, now: Instant) -> bool {
        let changed = || self.cached.borrow().client.version != quotas.version();
        self.muted_until.get().is_some_and(|until| until > now) && !changed()
    }

    /// Unmute the connection.
    pub(crate) fn unmute(&self) {
        self.muted_until.set(None);
    }

    /// Return whether the client has a request quota, which counts thread time.
    #[inline]
    pub(crate) fn counts_time(&self) -> bool {
        self.timed.get()
    }

    /// Return the quotas for another thread that works for the same client. That thread counts only thread time.
    pub(crate) fn of_time(&self) -> Self {
        let client = ClientQuotas {
            request: self.request_usage(),
            ..ClientQuotas::default()
        };
        let quotas = Self::default();
        quotas.cached.borrow_mut().client = client;
        quotas
    }

    /// Count thread time spent on the client.
    pub(crate) fn worked(&self, from: Instant, to: Instant) {
        let nanos = to.saturating_duration_since(from).as_nanos() as u64;
        self.unreported.set(self.unreported.get() + nanos);
        if self.unreported.get() >= UNREPORTED_NANOS_MAX {
            self.report(to);
        }
    }

    /// Report the pending thread time.
    fn report(&self, now: Instant) {
        let nanos = self.unreported.take();
        if nanos > 0
            && let Some(request) = &self.cached.borrow().client.request
        {
            request.add(nanos, now);
        }
    }

    /// Return the counter for time that other threads spend on a request.
    pub(crate) fn request_usage(&self) -> Option<std::sync::Arc<crate::quotas::EntityUsage>> {
        self.cached.borrow().client.request.clone()
    }
}

impl Drop for ConnectionQuotas {
    fn drop(&mut self) {
        self.report(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quotas::{EntityQuotas, QuotaDelta};

    fn percent(bound: f64) -> QuotaDelta {
        QuotaDelta {
            entities: vec![EntityQuotas {
                user: None,
                client_id: Some(String::new()),
                values: [None, None, Some(bound), None],
            }],
            ..QuotaDelta::default()
        }
    }

    #[test]
    fn time_that_was_worked_is_counted_at_the_next_request_or_the_end() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        quotas.apply(&percent(100.0));
        let (short, long) = (Duration::from_micros(60), Duration::from_secs(1));
        let seconds = |one: f64| {
            let request = quotas.look_up("ann", "a", now).request.expect("set");
            (request.rate(now + long) / one).round()
        };
        let request = |connection: &ConnectionQuotas| {
            connection.arrived(&quotas, ("User:ann", "a"), (ApiKey::Fetch, 1), now);
        };
        let connection = ConnectionQuotas::default();
        request(&connection);
        connection.worked(now, now + long);
        let request_usage = connection.request_usage().expect("set");
        let one = request_usage.rate(now + long);
        assert!(one > 0.0, "at once");
        connection.worked(now, now + long);
        assert_eq!(seconds(one), 2.0);
        // For three seconds, connections close after one short request each.
        for _ in 0..50_000 {
            let connection = ConnectionQuotas::default();
            request(&connection);
            connection.worked(now, now + short);
        }
        assert_eq!(seconds(one), 5.0);
        // Then one connection sends the same requests and stays open.
        for _ in 0..50_000 {
            connection.worked(now, now + short);
            request(&connection);
        }
        assert_eq!(seconds(one), 8.0);
    }
}
