//! Client quotas (KIP-13, KIP-55, KIP-124, KIP-219, KIP-599, KIP-612): configuration, look-up and usage.
//!
//! The control plane publishes configuration as ordered changes (`table`). A connection looks up its quotas when it is
//! new, when it changes its client id, and when the table has changed (`version`). It keeps the atomic counters
//! (`entity_usage`) that it records in. Without any quotas a request costs one load and a branch.

pub(crate) mod active_producers;
mod bucket;
pub(crate) mod connection_quotas;
mod entity_usage;
mod mutations;
mod registry;
mod samples;
mod table;
pub(crate) mod throttle_time;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;

pub use entity_usage::EntityUsage;
use entity_usage::UsageKey;
use mutations::Mutations;
use registry::Registry;
pub use samples::Windows;
use samples::{Samples, excess_ms};
use table::Table;
pub use table::{EffectiveQuota, EntityQuotas, Kind, Values};

/// Longer names have no quota of their own (`NAME_BYTES_MAX` of `pybroker/broker/admin/quotas.py`). Their usage is
/// counted under the truncated name.
const NAME_BYTES_MAX: usize = 255;

/// Maximum number of addresses whose connections are counted. Addresses without recent connections are removed first.
const ADDRESSES_MAX: usize = 10_000;

/// A change of the quota configuration.
#[derive(Debug, Default)]
pub struct QuotaDelta {
    /// The delta replaces the whole configuration.
    pub full: bool,
    /// Quotas of users and client ids.
    pub entities: Vec<EntityQuotas>,
    /// Connection rates in connections a second, by address. An address of `None` means the default; a rate of `None`
    /// means no limit.
    pub addresses: Vec<(Option<IpAddr>, Option<f64>)>,
}

/// The quotas of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientQuotas {
    /// Version of the table from which the quotas were looked up; 0 if they were not looked up yet.
    pub(crate) version: u64,
    pub(crate) produce: Option<Arc<EntityUsage>>,
    pub(crate) fetch: Option<Arc<EntityUsage>>,
    pub(crate) request: Option<Arc<EntityUsage>>,
}

/// Quota configuration and usage of this broker.
#[derive(Debug)]
pub struct Quotas {
    began: Instant,
    /// Whether any user or client id has a quota.
    active: AtomicBool,
    /// Version of the table; grows with each change.
    version: AtomicU64,
    table: ArcSwap<Table>,
    /// Held while a change is applied.
    writer: Mutex<()>,
    registry: Mutex<Registry>,
    mutations: Mutex<Mutations>,
    addresses: Mutex<HashMap<IpAddr, Samples>>,
    /// `quota.window.*` and `controller.quota.window.*`.
    windows: ArcSwap<(Windows, Windows)>,
}

impl Default for Quotas {
    fn default() -> Self {
        Quotas {
            began: Instant::now(),
            active: AtomicBool::new(false),
            version: AtomicU64::new(1),
            table: ArcSwap::default(),
            writer: Mutex::new(()),
            registry: Mutex::default(),
            mutations: Mutex::default(),
            addresses: Mutex::default(),
            windows: ArcSwap::default(),
        }
    }
}

impl Quotas {
    /// Set the sample windows for clients and for mutations. Call this before any usage is counted.
    pub fn set_windows(&self, of_clients: Windows, of_mutations: Windows) {
        self.windows.store(Arc::new((of_clients, of_mutations)));
    }

    pub(crate) fn windows(&self) -> Windows {
        self.windows.load().0
    }

    /// Return whether any user or client id has a quota.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Return the version of the table, to compare with [`ClientQuotas::version`].
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Apply a change; requests that start later use it.
    pub fn apply(&self, delta: &QuotaDelta) {
        let _one_writer = self.writer.lock();
        let mut table = if delta.full {
            Table::default()
        } else {
            Table::clone(&self.table.load())
        };
        for entity in &delta.entities {
            table.set(entity);
        }
        for (address, rate) in &delta.addresses {
            table.set_address(*address, *rate);
        }
        let active = !table.is_empty();
        self.table.store(Arc::new(table));
        self.version.fetch_add(1, Ordering::Release);
        self.active.store(active, Ordering::Release);
    }

    /// Return the current quotas of a client. `user` is the name of its principal.
    pub(crate) fn look_up(&self, user: &str, client_id: &str, now: Instant) -> ClientQuotas {
        let version = self.version();
        let table = self.table.load();
        let (user, client_id) = (clipped(user), clipped(client_id));
        let find = |kind| {
            let quota = table.find(user, client_id, kind)?;
            let key = key_of(&quota, kind, user, client_id);
            let windows = self.windows();
            let usage = self.registry.lock().get(key, windows, self.began, now);
            usage.set_bound(quota.bound);
            Some(usage)
        };
        ClientQuotas {
            version,
            produce: find(Kind::Produce),
            fetch: find(Kind::Fetch),
            request: find(Kind::Request),
        }
    }

    /// Return whether the client has a controller mutation quota.
    pub fn bounds_mutations(&self, user: &str, client_id: &str) -> bool {
        let (user, client_id) = (clipped(user), clipped(client_id));
        let table = self.table.load();
        table.find(user, client_id, Kind::Mutation).is_some()
    }

    /// Count partitions that a client wants to create or delete. Return its throttle time in milliseconds.
    ///
    /// With `strict`, a client over its quota is refused and nothing is counted.
    ///
    /// # Errors
    ///
    /// The milliseconds after which the client may retry.
    pub fn mutate(
        &self,
        user: &str,
        client_id: &str,
        partitions: f64,
        strict: bool,
        now: Instant,
    ) -> Result<u32, u32> {
        let (user, client_id) = (clipped(user), clipped(client_id));
        let Some(quota) = self.table.load().find(user, client_id, Kind::Mutation) else {
            return Ok(0);
        };
        let UsageKey {
            user, client_id, ..
        } = key_of(&quota, Kind::Mutation, user, client_id);
        let windows = self.windows.load().1;
        let mut mutations = self.mutations.lock();
        mutations.take((user, client_id), &quota, partitions, strict, windows, now)
    }

    /// Count a connection from an address, once. If the address is over its rate, return the milliseconds after which
    /// to close the connection (KIP-612).
    pub(crate) fn connected(&self, address: IpAddr, now: Instant) -> Option<u32> {
        let table = self.table.load();
        if !table.has_addresses() {
            return None;
        }
        let address = address.to_canonical();
        let bound = table.of_address(address)?;
        let windows = self.windows();
        let passed = now.saturating_duration_since(self.began);
        let mut addresses = self.addresses.lock();
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
            addresses.retain(|_, made| made.sum(made.windows().at(passed)) > 0);
            if addresses.len() >= ADDRESSES_MAX {
                addresses.clear();
            }
        }
        let made = addresses
            .entry(address)
            .or_insert_with(|| Samples::new(windows));
        connection_wait_ms(made, bound, true, passed)
    }

    pub(crate) fn all(&self) -> Vec<Arc<EntityUsage>> {
        self.registry.lock().all()
    }
}

/// Rate of recent connections, of a listener or of all listeners.
#[derive(Debug)]
pub(crate) struct ConnectionRate {
    began: Instant,
    made: Samples,
}

impl ConnectionRate {
    pub(crate) fn new(windows: Windows, began: Instant) -> Self {
        ConnectionRate {
            began,
            made: Samples::new(windows),
        }
    }

    /// Count a connection. Return the milliseconds to wait before serving it (`max.connection.creation.rate`; 0: no
    /// limit).
    pub(crate) fn take(&self, per_second: u32, now: Instant) -> Option<u32> {
        if per_second == 0 {
            return None;
        }
        let passed = now.saturating_duration_since(self.began);
        connection_wait_ms(&self.made, per_second.into(), false, passed)
    }
}

/// Count a connection. Return the wait in milliseconds if it exceeds the rate, at most one window, as in Kafka's
/// `ConnectionQuotas`. With `refuses` a connection over the rate is not counted.
fn connection_wait_ms(made: &Samples, bound: f64, refuses: bool, passed: Duration) -> Option<u32> {
    let at = made.windows().at(passed);
    let wait = excess_ms(made.sum(at) + 1, bound, at);
    if wait == 0 || !refuses {
        made.add(1, at);
    }
    let most = u32::try_from(made.windows().length_ms).unwrap_or(u32::MAX);
    (wait > 0).then(|| wait.min(most))
}

fn key_of(quota: &EffectiveQuota, kind: Kind, user: &str, client_id: &str) -> UsageKey {
    UsageKey {
        kind,
        user: quota.by_user.then(|| user.into()),
        client_id: quota.by_client.then(|| client_id.into()),
    }
}

/// Return the part of a name that is kept.
pub(crate) fn clipped(name: &str) -> &str {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let end = (0..=NAME_BYTES_MAX).rfind(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn produce(user: Option<&str>, client_id: Option<&str>, bound: Option<f64>) -> QuotaDelta {
        QuotaDelta {
            entities: vec![EntityQuotas {
                user: user.map(str::to_owned),
                client_id: client_id.map(str::to_owned),
                values: [bound, None, None, None],
            }],
            ..QuotaDelta::default()
        }
    }

    #[test]
    fn connections_of_one_entity_share_its_figures_and_a_change_quota_for_all() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        assert!(!quotas.is_active());
        quotas.apply(&produce(Some("ann"), None, Some(1_000.0)));
        assert!(quotas.is_active());
        let one = quotas.look_up("ann", "a", now).produce.expect("set");
        let other = quotas.look_up("ann", "b", now).produce.expect("set");
        assert!(quotas.look_up("bob", "a", now).produce.is_none());
        assert_eq!(one.record(9_000, now), 0);
        assert!(other.record(9_000, now) > 0, "of the user as a whole");
        let before = quotas.version();
        quotas.apply(&produce(Some("ann"), None, Some(100_000.0)));
        assert!(quotas.version() > before);
        let raised = quotas.look_up("ann", "a", now).produce.expect("set");
        assert_eq!(raised.record(1, now), 0);
        assert_eq!(other.record(1, now), 0, "the same usage");
        quotas.apply(&produce(Some("ann"), None, None));
        assert!(!quotas.is_active());
    }

    #[test]
    fn a_default_bounds_each_client_by_itself() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        quotas.apply(&produce(None, Some(""), Some(10.0)));
        let one = quotas.look_up("ann", "a", now).produce.expect("set");
        let other = quotas.look_up("ann", "b", now).produce.expect("set");
        assert!(one.record(1_000, now) > 0);
        assert_eq!(other.record(1, now), 0);
        quotas.apply(&QuotaDelta {
            full: true,
            ..QuotaDelta::default()
        });
        assert!(!quotas.is_active());
    }

    #[test]
    fn mutations_are_counted_by_whom_the_quota_is_of() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        assert_eq!(quotas.mutate("ann", "a", 1e9, true, now), Ok(0), "no quota");
        assert!(!quotas.bounds_mutations("ann", "a"));
        let mut delta = produce(Some("ann"), None, None);
        delta.entities[0].values = [None, None, None, Some(1.0)];
        quotas.apply(&delta);
        assert!(quotas.bounds_mutations("ann", "a"));
        assert!(!quotas.bounds_mutations("bob", "a"));
        assert_eq!(quotas.mutate("ann", "a", 12.0, true, now), Ok(0));
        assert_eq!(quotas.mutate("ann", "b", 1.0, true, now), Err(1_000));
        assert_eq!(quotas.mutate("bob", "b", 1.0, true, now), Ok(0));
        assert_eq!(quotas.mutate("ann", "a", 1.0, false, now), Ok(2_000));
    }

    #[test]
    fn an_address_that_connects_too_often_waits_and_the_others_do_not() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert_eq!(quotas.connected(one, now), None);
        quotas.apply(&QuotaDelta {
            addresses: vec![(Some(one), Some(2.0))],
            ..QuotaDelta::default()
        });
        let refused = |address, now| {
            (0..100)
                .filter(|_| quotas.connected(address, now).is_some())
                .count()
        };
        // The number of connections in ten seconds at the limit, plus those of the elapsed part of a window.
        assert!((78..=80).contains(&refused(one, now)));
        assert_eq!(refused(other, now), 0);
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
        assert!(quotas.connected(mapped, now).is_some(), "the same address");
        assert!(!quotas.is_active(), "requests do not look");
        assert_eq!(quotas.connected(one, now + Duration::from_secs(12)), None);
    }

    #[test]
    fn acceptors_wait_a_window_at_most() {
        let now = Instant::now();
        let rate = ConnectionRate::new(Windows::default(), now);
        assert!((0..100).all(|_| rate.take(10, now).is_none()));
        assert_eq!(rate.take(10, now), Some(100));
        assert!((0..100).all(|_| rate.take(10, now).is_some_and(|wait| wait <= 1_000)));
        assert_eq!(rate.take(10, now + Duration::from_secs(12)), None);
        assert_eq!(rate.take(0, now), None, "no limit");
    }

    #[test]
    fn long_names_are_clipped_between_characters() {
        let name = "ä".repeat(200);
        assert_eq!(clipped(&name).len(), 254);
        assert_eq!(clipped("a"), "a");
    }
}
