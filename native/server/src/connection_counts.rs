//! How many connections there are, of all listeners together, and which limit one more would break.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::control_plane::Peer;
use crate::limits::Limits;

/// How many connections there are; looked at when one opens or closes.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    next_id: AtomicU64,
    open: AtomicUsize,
    refused: AtomicU64,
    throttled: AtomicU64,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    by_listener: Mutex<BTreeMap<Arc<str>, OfListener>>,
}

/// Connections of one listener.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OfListener {
    pub(crate) open: u64,
    /// Since the start.
    pub(crate) opened: u64,
    /// Since the start.
    pub(crate) refused: u64,
}

impl ConnectionCounts {
    /// A place for a connection from `address`, or the limit in its way.
    pub(crate) fn admit(
        &self,
        listener: &Arc<str>,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<u64, &'static str> {
        let mut by_address = self.by_address.lock();
        let refuse = |limit| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.of(listener, |counts| counts.refused += 1);
            Err(limit)
        };
        if self.open.load(Ordering::Relaxed) >= limits.connections_max {
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
        self.open.fetch_add(1, Ordering::Relaxed);
        self.of(listener, |counts| {
            counts.open += 1;
            counts.opened += 1;
        });
        Ok(self.next_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Gives a place up.
    pub(crate) fn leave(&self, peer: &Peer) {
        self.leave_address(&peer.listener, peer.address.ip());
    }

    /// The same of a connection that nobody has.
    pub(crate) fn leave_address(&self, listener: &Arc<str>, address: IpAddr) {
        self.of(listener, |counts| counts.open -= 1);
        let mut by_address = self.by_address.lock();
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    fn of(&self, listener: &Arc<str>, change: impl FnOnce(&mut OfListener)) {
        let mut by_listener = self.by_listener.lock();
        change(by_listener.entry(Arc::clone(listener)).or_default());
    }

    /// Of each listener that has had one.
    pub(crate) fn by_listener(&self) -> BTreeMap<Arc<str>, OfListener> {
        self.by_listener.lock().clone()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// One was opened too early.
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
