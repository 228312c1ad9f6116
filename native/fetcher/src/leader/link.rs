//! The connection to the leader, and how long to let it be when it cannot be reached.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pybroker_client::{Closer, Connection, Error};
use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::fetch_response;

use super::{Shared, Stop};
use crate::figures::Counters;

const FIRST_REST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Link {
    leader: i32,
    counters: Arc<Counters>,
    /// Host and port.
    address: Option<String>,
    open: Option<Open>,
    failures: u32,
    rests_until: Option<Instant>,
}

/// A connection.
pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) closer: Arc<Closer>,
    pub(super) since: Instant,
    /// Topics go by id; else by name, as this broker or the leader knows no ids.
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

    /// The leader is at another address.
    pub(super) fn move_to(&mut self, address: String) {
        self.address = Some(address);
        self.failures = 0;
        self.rests_until = None;
        self.close();
    }

    /// Until when the leader is let be; without an address until there is one, which mail brings.
    pub(super) fn rests_until(&self, now: Instant) -> Option<Instant> {
        if self.address.is_none() {
            return Some(now + REST_MAX);
        }
        self.rests_until.filter(|&until| until > now)
    }

    /// Connects unless there is a connection; whether it has.
    pub(super) fn open(&mut self, shared: &Shared) -> Result<bool, Stop> {
        let Some(address) = self.address.as_deref().filter(|_| self.open.is_none()) else {
            return Ok(false);
        };
        let connection = Connection::open(address, &shared.connection)?;
        let by_id = goes_by_id(&connection, shared)?;
        if self.failures > 1 {
            shared.info(&format!(
                "broker {} at {address} can be reached again: following it",
                self.leader
            ));
        }
        self.open = Some(Open {
            closer: Arc::new(connection.closer()?),
            connection,
            since: shared.clock.now(),
            by_id,
        });
        self.counters.connected.store(true, Relaxed);
        Ok(true)
    }

    /// A connection that goes by name asks whether the leader knows ids by now, once this broker does: the next one goes
    /// by id then.
    pub(super) fn close_if_raised(&mut self, shared: &Shared) {
        let Some(open) = self.open.as_mut().filter(|open| !open.by_id) else {
            return;
        };
        if !shared.topic_ids.load(Relaxed) {
            return;
        }
        let learnt = open.connection.learn_versions(&shared.connection);
        // What goes wrong with the connection is told by the next request over it.
        if learnt.is_ok_and(|()| goes_by_id(&open.connection, shared).unwrap_or(false)) {
            self.close();
        }
    }

    /// The connection, while there is one.
    pub(super) fn get(&mut self) -> Result<&mut Open, Stop> {
        self.open.as_mut().ok_or(Stop::CalledBack)
    }

    /// The leader has answered.
    pub(super) const fn works(&mut self) {
        self.failures = 0;
    }

    /// The connection was closed on purpose.
    pub(super) fn close(&mut self) {
        self.open = None;
        self.counters.connected.store(false, Relaxed);
    }

    /// The leader cannot be reached, or does not answer as it should: it is let be for a while.
    pub(super) fn lost(&mut self, shared: &Shared, problem: &Error, now: Instant) {
        self.close();
        let rest = FIRST_REST.saturating_mul(1 << self.failures.min(8));
        self.rests_until = Some(now + rest.min(REST_MAX));
        self.failures = self.failures.saturating_add(1);
        // The second time in a row: a broker that restarts closes its connections once.
        if self.failures == 2 {
            shared.warn(&format!(
                "cannot follow broker {}: {problem}; tried again every second at least",
                self.leader
            ));
        }
    }
}

/// Whether both know topic ids. An error: the leader serves no version that this broker speaks.
fn goes_by_id(connection: &Connection, shared: &Shared) -> Result<bool, Error> {
    let by_name = fetch_response::INTER_BROKER_BY_NAME;
    let newest = if shared.topic_ids.load(Relaxed) {
        fetch_response::INTER_BROKER
    } else {
        by_name
    };
    let version = connection.version_of(ApiKey::Fetch, by_name..=newest)?;
    Ok(version > by_name)
}
