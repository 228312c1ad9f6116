//! Connection counts of all listeners, and the limits for new connections.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::config::Registry;
use crate::control_plane::Peer;
use crate::limits::Limits;

/// Number of open connections. It is used only when a connection opens or closes.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    next_id: AtomicU64,
    /// Connections of client listeners.
    of_clients: AtomicUsize,
    /// Connections of the inter-broker listener, counted separately: clients must not use up the connections of
    /// brokers, or the reverse.
    of_brokers: AtomicUsize,
    refused: AtomicU64,
    throttled: AtomicU64,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    by_listener: Mutex<BTreeMap<Arc<str>, OfListener>>,
}

/// Connection counts of one listener.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OfListener {
    pub(crate) open: u64,
    /// Number of opened connections since the broker started.
    pub(crate) opened: u64,
    /// Number of refused connections since the broker started.
    pub(crate) refused: u64,
}

impl ConnectionCounts {
    /// Reserve a connection from `address`, or return the limit that refuses it.
    pub(crate) fn admit(
        &self,
        (listener, registry): (&Arc<str>, Registry),
        address: IpAddr,
        limits: &Limits,
    ) -> Result<u64, &'static str> {
        let mut by_address = self.by_address.lock();
        let refuse = |limit| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.of(listener, |counts| counts.refused += 1);
            Err(limit)
        };
        let open = self.open_of(registry);
        if open.load(Ordering::Relaxed) >= limits.connections_max {
            return refuse("max.connections");
        }
        let here = by_address.get(&address).copied().unwrap_or(0);
        let max = limits
            .connections_per_ip_overrides
            .get(&address)
            .copied()
            .unwrap_or(limits.connections_per_ip_max);
        if here >= max {
            return refuse("max.connections.per.ip");
        }
        by_address.insert(address, here + 1);
        open.fetch_add(1, Ordering::Relaxed);
        self.of(listener, |counts| {
            counts.open += 1;
            counts.opened += 1;
        });
        Ok(self.next_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Release the connection.
    pub(crate) fn leave(&self, peer: &Peer) {
        self.leave_address((&peer.listener, peer.registry), peer.address.ip());
    }

    /// Release a connection that has no `Peer` yet.
    pub(crate) fn leave_address(
        &self,
        (listener, registry): (&Arc<str>, Registry),
        address: IpAddr,
    ) {
        self.of(listener, |counts| counts.open -= 1);
        let mut by_address = self.by_address.lock();
        self.open_of(registry).fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    const fn open_of(&self, registry: Registry) -> &AtomicUsize {
        match registry {
            Registry::Client => &self.of_clients,
            Registry::InterBroker => &self.of_brokers,
        }
    }

    fn of(&self, listener: &Arc<str>, change: impl FnOnce(&mut OfListener)) {
        let mut by_listener = self.by_listener.lock();
        change(by_listener.entry(Arc::clone(listener)).or_default());
    }

    /// Return the counts of each listener that has had a connection.
    pub(crate) fn by_listener(&self) -> BTreeMap<Arc<str>, OfListener> {
        self.by_listener.lock().clone()
    }

    pub(crate) fn open(&self) -> usize {
        self.of_clients.load(Ordering::Relaxed) + self.of_brokers.load(Ordering::Relaxed)
    }

    /// Count a connection that exceeded the rate limit.
    pub(crate) fn throttle(&self) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_at_their_limit_leave_brokers_theirs() {
        let counts = ConnectionCounts::default();
        let limits = Limits {
            connections_max: 2,
            ..Limits::default()
        };
        let address = IpAddr::from([127, 0, 0, 1]);
        let (clients, brokers) = ("PLAINTEXT".into(), "BROKERS".into());
        let clients = (&clients, Registry::Client);
        let brokers = (&brokers, Registry::InterBroker);
        for listener in [clients, clients, brokers, brokers] {
            assert!(counts.admit(listener, address, &limits).is_ok());
        }
        for listener in [clients, brokers] {
            let refused = counts.admit(listener, address, &limits);
            assert_eq!(refused, Err("max.connections"));
        }
        assert_eq!(counts.open(), 4);
        counts.leave_address(clients, address);
        assert!(counts.admit(clients, address, &limits).is_ok());
    }
}
