//! What holds for one connection, and whether it is muted: Kafka answers first, with how long the client has to wait, and
//! reads nothing more of the connection for that long (KIP-219).
//!
//! Used by the connection's own task only.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pybroker_protocol::ApiKey;

use crate::quotas::{Held, Quotas, clipped};

/// Time of a thread that other connections of the same client hear of with the next request at the latest.
const UNREPORTED_NANOS_MAX: u64 = 100_000;

/// See the module.
#[derive(Default)]
pub(crate) struct ConnectionQuotas {
    resolved: RefCell<Resolved>,
    timed: Cell<bool>,
    /// Nanoseconds of threads that are to be counted: with the next request, which looks at the same figures, or when
    /// they are many, or the connection ends.
    unreported: Cell<u64>,
    muted_until: Cell<Option<Instant>>,
}

#[derive(Default)]
struct Resolved {
    held: Held,
    client_id: Box<str>,
}

impl ConnectionQuotas {
    /// It is another user's from now on.
    pub(crate) fn forget(&mut self) {
        self.report(Instant::now());
        *self.resolved.get_mut() = Resolved::default();
        self.timed.set(false);
    }

    /// Looks up what holds, if it was not looked up for this client id and this table.
    fn resolve(&self, quotas: &Quotas, principal: &str, client_id: &str, now: Instant) {
        let client_id = clipped(client_id);
        {
            let known = self.resolved.borrow();
            if known.held.version == quotas.version() && &*known.client_id == client_id {
                return;
            }
        }
        self.report(now);
        let mut resolved = self.resolved.borrow_mut();
        let user = principal
            .split_once(':')
            .map_or(principal, |(_, name)| name);
        resolved.held = quotas.hold(user, client_id, now);
        if &*resolved.client_id != client_id {
            resolved.client_id = client_id.into();
        }
        self.timed.set(resolved.held.request.is_some());
    }

    /// A request has come of so many bytes; gives the milliseconds that its answer has to tell. Muted for that long, which
    /// the answer does not wait for.
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
        let held = &self.resolved.borrow().held;
        let mut wait = match &held.produce {
            Some(produce) if key == ApiKey::Produce => produce.record(bytes as u64, now),
            _ => 0,
        };
        if let Some(request) = &held.request {
            wait = wait.max(request.record(self.unreported.take(), now));
        }
        self.mute(wait, now)
    }

    /// So many bytes of records are about to be answered to a Fetch. The milliseconds that are told instead, if they are
    /// too many now.
    pub(crate) fn fetched(&self, bytes: usize, now: Instant) -> Option<i32> {
        let resolved = self.resolved.borrow();
        let fetch = resolved.held.fetch.as_ref()?;
        let wait = fetch.admit(bytes as u64, now).err()?;
        Some(self.mute(wait, now))
    }

    /// The most that one answer to a Fetch may bring.
    pub(crate) fn fetch_bytes_max(&self) -> Option<usize> {
        let resolved = self.resolved.borrow();
        Some(resolved.held.fetch.as_ref()?.burst())
    }

    /// Reads nothing for so many milliseconds.
    pub(crate) fn mute(&self, wait_ms: u32, now: Instant) -> i32 {
        if wait_ms > 0 {
            let until = now + Duration::from_millis(wait_ms.into());
            self.muted_until
                .set(self.muted_until.get().max(Some(until)));
        }
        i32::try_from(wait_ms).unwrap_or(i32::MAX)
    }

    /// Until when nothing is read.
    #[inline]
    pub(crate) fn muted_until(&self) -> Option<Instant> {
        self.muted_until.get()
    }

    /// Whether it is still muted: until its time is over, or something else holds for it. Its figures stay what they are.
    pub(crate) fn stays_muted(&self, quotas: &Quotas, now: Instant) -> bool {
        let changed = || self.resolved.borrow().held.version != quotas.version();
        self.muted_until.get().is_some_and(|until| until > now) && !changed()
    }

    /// Reads again.
    pub(crate) fn unmute(&self) {
        self.muted_until.set(None);
    }

    /// Whether time of threads is counted.
    #[inline]
    pub(crate) fn counts_time(&self) -> bool {
        self.timed.get()
    }

    /// For another thread, which works for the same client: what it counts is the time.
    pub(crate) fn of_time(&self) -> Self {
        let held = Held {
            request: self.request_figures(),
            ..Held::default()
        };
        let quotas = Self::default();
        quotas.resolved.borrow_mut().held = held;
        quotas
    }

    /// A thread has worked for the client from one time to another.
    pub(crate) fn worked(&self, from: Instant, to: Instant) {
        let nanos = to.saturating_duration_since(from).as_nanos() as u64;
        self.unreported.set(self.unreported.get() + nanos);
        if self.unreported.get() >= UNREPORTED_NANOS_MAX {
            self.report(to);
        }
    }

    /// Counts what is to be counted.
    fn report(&self, now: Instant) {
        let nanos = self.unreported.take();
        if nanos > 0
            && let Some(request) = &self.resolved.borrow().held.request
        {
            request.add(nanos, now);
        }
    }

    /// Where the time is counted that others spend on a request.
    pub(crate) fn request_figures(&self) -> Option<std::sync::Arc<crate::quotas::Figures>> {
        self.resolved.borrow().held.request.clone()
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
            let request = quotas.hold("ann", "a", now).request.expect("set");
            (request.rate(now + long) / one).round()
        };
        let request = |connection: &ConnectionQuotas| {
            connection.arrived(&quotas, ("User:ann", "a"), (ApiKey::Fetch, 1), now);
        };
        let connection = ConnectionQuotas::default();
        request(&connection);
        connection.worked(now, now + long);
        let request_figures = connection.request_figures().expect("set");
        let one = request_figures.rate(now + long);
        assert!(one > 0.0, "at once");
        connection.worked(now, now + long);
        assert_eq!(seconds(one), 2.0);
        // Three seconds of connections that end after a short request each.
        for _ in 0..50_000 {
            let connection = ConnectionQuotas::default();
            request(&connection);
            connection.worked(now, now + short);
        }
        assert_eq!(seconds(one), 5.0);
        // And of one that goes on.
        for _ in 0..50_000 {
            connection.worked(now, now + short);
            request(&connection);
        }
        assert_eq!(seconds(one), 8.0);
    }
}
