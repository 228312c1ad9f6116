//! Quota configuration and look-up in Kafka's order of precedence (KIP-55, KIP-257). No I/O.

use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;

/// Type of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `producer_byte_rate`: bytes of Produce requests a second.
    Produce,
    /// `consumer_byte_rate`: bytes of Fetch responses a second.
    Fetch,
    /// `request_percentage`: time of the broker's threads, in percent of one thread.
    Request,
    /// `controller_mutation_rate`: partitions created and deleted a second (KIP-599).
    Mutation,
}

/// Number of quota types.
const KINDS: usize = 4;

/// The values of one entity, by kind.
pub type Values = [Option<f64>; KINDS];

/// All quotas of one entity, which replace its earlier ones. A name of `None` means that the entity does not have this
/// part, and an empty name means the default entity.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityQuotas {
    /// User, without the type of its principal.
    pub user: Option<String>,
    /// A client id.
    pub client_id: Option<String>,
    /// Values by [`Kind`], in its order. If all are `None`, the quotas are removed.
    pub values: Values,
}

/// The quota of a client, and the entity whose usage it limits.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveQuota {
    /// Limit per second.
    pub bound: f64,
    /// Whether the quota limits only this user's usage. `false` means the usage of all users together.
    pub by_user: bool,
    /// Whether the quota limits only this client id's usage. `false` means the usage of all client ids together.
    pub by_client: bool,
}

/// Quotas of the client ids of one user, or of any user.
#[derive(Clone, Debug, Default)]
struct Clients {
    /// Quotas of the user for all of its clients together.
    own: Values,
    named: HashMap<Box<str>, Values>,
    default: Values,
}

impl Clients {
    fn is_empty(&self) -> bool {
        self.named.is_empty() && is_unset(&self.own) && is_unset(&self.default)
    }

    fn of_client(&self, client_id: &str, kind: Kind) -> Option<f64> {
        let named = self.named.get(client_id);
        named
            .and_then(|values| values[kind as usize])
            .or(self.default[kind as usize])
    }

    fn set(&mut self, client_id: Option<&str>, values: Values) {
        match client_id {
            None => self.own = values,
            Some("") => self.default = values,
            Some(name) if is_unset(&values) => drop(self.named.remove(name)),
            Some(name) => drop(self.named.insert(name.into(), values)),
        }
    }
}

fn is_unset(values: &Values) -> bool {
    values.iter().all(Option::is_none)
}

/// The whole configuration. Immutable once it is published.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    users: HashMap<Box<str>, Arc<Clients>>,
    default_user: Arc<Clients>,
    /// Quotas of client ids, for any user.
    clients: Arc<Clients>,
    /// `connection_creation_rate` by address.
    addresses: HashMap<IpAddr, f64>,
    default_address: Option<f64>,
}

impl Table {
    /// Return whether no user or client id has a quota.
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.default_user.is_empty() && self.clients.is_empty()
    }

    pub(super) fn set(&mut self, entity: &EntityQuotas) {
        let client_id = entity.client_id.as_deref();
        match entity.user.as_deref() {
            None => Arc::make_mut(&mut self.clients).set(client_id, entity.values),
            Some("") => Arc::make_mut(&mut self.default_user).set(client_id, entity.values),
            Some(name) => {
                let user = self.users.entry_ref(name).or_default();
                Arc::make_mut(user).set(client_id, entity.values);
                if user.is_empty() {
                    self.users.remove(name);
                }
            }
        }
    }

    /// Set the rate of an address. With `None` as the address, set the default.
    pub(super) fn set_address(&mut self, address: Option<IpAddr>, rate: Option<f64>) {
        match (address, rate) {
            (None, rate) => self.default_address = rate,
            (Some(address), Some(rate)) => drop(self.addresses.insert(address, rate)),
            (Some(address), None) => drop(self.addresses.remove(&address)),
        }
    }

    /// Return whether any address has a rate.
    pub(super) fn has_addresses(&self) -> bool {
        !self.addresses.is_empty() || self.default_address.is_some()
    }

    /// Return the allowed connections a second from an address.
    pub(super) fn of_address(&self, address: IpAddr) -> Option<f64> {
        self.addresses
            .get(&address)
            .copied()
            .or(self.default_address)
    }

    /// Return the quota of a type for a user's client: the first of Kafka's eight levels that has one.
    pub(super) fn find(&self, user: &str, client_id: &str, kind: Kind) -> Option<EffectiveQuota> {
        let both = |bound| EffectiveQuota {
            bound,
            by_user: true,
            by_client: true,
        };
        let of_user = |bound| EffectiveQuota {
            bound,
            by_user: true,
            by_client: false,
        };
        let named = self.users.get(user);
        for clients in named.into_iter().chain([&self.default_user]) {
            if let Some(bound) = clients.of_client(client_id, kind) {
                return Some(both(bound));
            }
            if let Some(bound) = clients.own[kind as usize] {
                return Some(of_user(bound));
            }
        }
        self.clients
            .of_client(client_id, kind)
            .map(|bound| EffectiveQuota {
                bound,
                by_user: false,
                by_client: true,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(user: Option<&str>, client_id: Option<&str>, bound: f64) -> EntityQuotas {
        EntityQuotas {
            user: user.map(str::to_owned),
            client_id: client_id.map(str::to_owned),
            values: [Some(bound), None, None, None],
        }
    }

    /// Levels from Kafka's documentation ("Quotas", "Quota Configuration"), highest precedence first: the entity, and
    /// whether usage is counted by user and by client id.
    const ORDER: [(Option<&str>, Option<&str>, bool, bool); 8] = [
        (Some("ann"), Some("app"), true, true),
        (Some("ann"), Some(""), true, true),
        (Some("ann"), None, true, false),
        (Some(""), Some("app"), true, true),
        (Some(""), Some(""), true, true),
        (Some(""), None, true, false),
        (None, Some("app"), false, true),
        (None, Some(""), false, true),
    ];

    #[test]
    fn the_first_of_the_eight_levels_quota() {
        let mut table = Table::default();
        for (level, (user, client_id, ..)) in ORDER.iter().enumerate() {
            table.set(&entity(*user, *client_id, level as f64 + 1.0));
            table.set(&entity(Some("bob"), Some("app"), 99.0));
        }
        for (level, (user, client_id, by_user, by_client)) in ORDER.into_iter().enumerate() {
            let quota = EffectiveQuota {
                bound: level as f64 + 1.0,
                by_user,
                by_client,
            };
            assert_eq!(table.find("ann", "app", Kind::Produce), Some(quota));
            assert_eq!(table.find("ann", "app", Kind::Fetch), None, "by kind");
            table.set(&EntityQuotas {
                values: [None; KINDS],
                ..entity(user, client_id, 0.0)
            });
        }
        assert_eq!(table.find("ann", "app", Kind::Produce), None);
        table.set(&EntityQuotas {
            values: [None; KINDS],
            ..entity(Some("bob"), Some("app"), 0.0)
        });
        assert!(table.is_empty(), "{table:?}");
    }

    #[test]
    fn each_kind_goes_its_own_way_through_the_levels() {
        let mut table = Table::default();
        table.set(&EntityQuotas {
            values: [None, Some(5.0), None, None],
            ..entity(Some("ann"), Some("app"), 0.0)
        });
        table.set(&entity(None, Some(""), 7.0));
        let bound = |client, kind| Some(table.find("ann", client, kind)?.bound);
        assert_eq!(bound("app", Kind::Produce), Some(7.0));
        assert_eq!(bound("app", Kind::Fetch), Some(5.0));
        assert_eq!(bound("other", Kind::Fetch), None);
        assert_eq!(bound("", Kind::Produce), Some(7.0), "without a client id");
    }

    #[test]
    fn addresses_have_a_default() {
        let mut table = Table::default();
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        assert!(!table.has_addresses());
        table.set_address(None, Some(3.0));
        table.set_address(Some(one), Some(1.0));
        assert_eq!(table.of_address(one), Some(1.0));
        assert_eq!(table.of_address(other), Some(3.0));
        table.set_address(None, None);
        table.set_address(Some(one), None);
        assert!(!table.has_addresses());
    }
}
