//! The connection to the leader, and the backoff when it is unreachable.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pybroker_client::{Closer, Connection, Error};
use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::fetch_response;

use super::{FetcherContext, Stop};
use crate::figures::Counters;

const FIRST_REST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);

/// The connection to the leader.
pub(super) struct Link {
    leader: i32,
    counters: Arc<Counters>,
    /// Host and port.
    address: Option<String>,
    open: Option<OpenConnection>,
    failures: u32,
    rests_until: Option<Instant>,
}

/// An open connection.
pub(super) struct OpenConnection {
    pub(super) connection: Connection,
    pub(super) closer: Arc<Closer>,
    pub(super) since: Instant,
    /// Whether requests use topic ids. They use names if this broker or the leader does not know ids.
    pub(super) by_id: bool,
}

impl Link {
    pub(super) const fn new(leader: i32, counters: Arc<Counters>) -> Self {
        Self {
            leader,
            counters,
            address: None,
            open: None,
            failures: 0,
            rests_until: None,
        }
    }

    /// Set a new address of the leader.
    pub(super) fn move_to(&mut self, address: String) {
        self.address = Some(address);
        self.failures = 0;
        self.rests_until = None;
        self.close();
    }

    /// Return the time until which the thread must not connect: the end of the backoff. Without an address, return a
    /// time after which the thread checks again; a message with an address wakes it earlier.
    pub(super) fn rests_until(&self, now: Instant) -> Option<Instant> {
        if self.address.is_none() {
            return Some(now + REST_MAX);
        }
        self.rests_until.filter(|&until| until > now)
    }

    /// Connect if there is no connection. Return whether a connection was opened.
    pub(super) fn open(&mut self, shared: &FetcherContext) -> Result<bool, Stop> {
        let Some(address) = self.address.as_deref().filter(|_| self.open.is_none()) else {
            return Ok(false);
        };
        let connection = Connection::open(address, &shared.connection)?;
        let by_id = goes_by_id(&connection, shared)?;
        if self.failures > 1 {
            shared.info(&format!(
                "reconnected to a leader broker={} address={address}",
                self.leader
            ));
        }
        self.open = Some(OpenConnection {
            closer: Arc::new(connection.closer()?),
            connection,
            since: shared.clock.now(),
            by_id,
        });
        self.counters.connected.store(true, Relaxed);
        Ok(true)
    }

    /// Close a connection that uses names if both brokers know topic ids by now. The next connection uses ids.
    pub(super) fn close_if_raised(&mut self, shared: &FetcherContext) {
        let Some(open) = self.open.as_mut().filter(|open| !open.by_id) else {
            return;
        };
        if !shared.topic_ids.load(Relaxed) {
            return;
        }
        let learnt = open.connection.learn_versions(&shared.connection);
        // Ignore errors here: the next request over the connection reports them.
        if learnt.is_ok_and(|()| goes_by_id(&open.connection, shared).unwrap_or(false)) {
            self.close();
        }
    }

    /// Return the connection, if there is one.
    pub(super) fn get(&mut self) -> Result<&mut OpenConnection, Stop> {
        self.open.as_mut().ok_or(Stop::CalledBack)
    }

    /// Record a response of the leader.
    pub(super) const fn works(&mut self) {
        self.failures = 0;
    }

    /// Close the connection on purpose.
    pub(super) fn close(&mut self) {
        self.open = None;
        self.counters.connected.store(false, Relaxed);
    }

    /// Close the connection and back off, because the leader is unreachable or sent an invalid response.
    pub(super) fn lost(&mut self, shared: &FetcherContext, problem: &Error, now: Instant) {
        self.close();
        let rest = FIRST_REST.saturating_mul(1 << self.failures.min(8));
        self.rests_until = Some(now + rest.min(REST_MAX));
        self.failures = self.failures.saturating_add(1);
        // Warn at the second failure in a row: a restarting broker closes its connections once.
        if self.failures == 2 {
            shared.warn(&format!(
                "cannot fetch from a leader, retrying at least every second broker={}: {problem}",
                self.leader
            ));
        }
    }
}

/// Return whether both brokers know topic ids. Fails if they have no common version.
fn goes_by_id(connection: &Connection, shared: &FetcherContext) -> Result<bool, Error> {
    let by_name = fetch_response::INTER_BROKER_BY_NAME;
    let newest = if shared.topic_ids.load(Relaxed) {
        fetch_response::INTER_BROKER
    } else {
        by_name
    };
    let version = connection.version_of(ApiKey::Fetch, by_name..=newest)?;
    Ok(version > by_name)
}
