//! Authorization by access control lists (ACLs), shared by data plane and control plane.
//!
//! The rules are Kafka's: super users may do everything; a deny entry wins; READ, WRITE, DELETE and ALTER imply
//! DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS (for allow entries only); entries match by literal name, by `*` and
//! by prefix; without any entry for a resource `allow.everyone.if.no.acl.found` decides.
//!
//! Python applies changes in order. One writer copies the changed parts and swaps in the new rules; each request loads
//! the rules once. Without authorizer there are no rules, and everything is permitted.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

/// An ACL operation, in Kafka's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation(pub u8);

#[allow(missing_docs)] // the names are Kafka's
impl Operation {
    pub const ALL: Operation = Operation(2);
    pub const READ: Operation = Operation(3);
    pub const WRITE: Operation = Operation(4);
    pub const CREATE: Operation = Operation(5);
    pub const DELETE: Operation = Operation(6);
    pub const ALTER: Operation = Operation(7);
    pub const DESCRIBE: Operation = Operation(8);
    pub const CLUSTER_ACTION: Operation = Operation(9);
    pub const DESCRIBE_CONFIGS: Operation = Operation(10);
    pub const ALTER_CONFIGS: Operation = Operation(11);
    pub const IDEMPOTENT_WRITE: Operation = Operation(12);
    pub const CREATE_TOKENS: Operation = Operation(13);
    pub const DESCRIBE_TOKENS: Operation = Operation(14);
    pub const TWO_PHASE_COMMIT: Operation = Operation(15);

    /// Return Kafka's name of the operation, for the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::READ => "read",
            Self::WRITE => "write",
            Self::CREATE => "create",
            Self::DELETE => "delete",
            Self::ALTER => "alter",
            Self::DESCRIBE => "describe",
            Self::DESCRIBE_CONFIGS => "describe configs of",
            Self::ALTER_CONFIGS => "alter configs of",
            _ => "act on",
        }
    }
}

/// An ACL resource type, in Kafka's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResourceType(pub u8);

#[allow(missing_docs)] // the names are Kafka's
impl ResourceType {
    pub const TOPIC: ResourceType = ResourceType(2);
    pub const GROUP: ResourceType = ResourceType(3);
    pub const CLUSTER: ResourceType = ResourceType(4);
    pub const TRANSACTIONAL_ID: ResourceType = ResourceType(5);
    pub const DELEGATION_TOKEN: ResourceType = ResourceType(6);
    pub const USER: ResourceType = ResourceType(7);
}

/// The name of the only resource of type CLUSTER.
pub const CLUSTER_NAME: &str = "kafka-cluster";
const WILDCARD: &str = "*";
const EVERYBODY: &str = "User:*";
/// Upper bound of the codes of resource types.
const TYPES: usize = 8;

/// Host of an ACL entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// Any host.
    Any,
    /// One address.
    Address(IpAddr),
    /// A network: addresses that share the given number of leading bits (KIP-1276).
    Network(IpAddr, u8),
    /// Matches no host, because the text is not an address.
    Nowhere,
}

impl Host {
    /// Parse the host of an entry. Different spellings of an address are equal.
    pub fn parse(text: &str) -> Host {
        if text == WILDCARD {
            return Host::Any;
        }
        if let Some((address, bits)) = text.split_once('/') {
            return Self::network(address, bits).unwrap_or(Host::Nowhere);
        }
        text.parse::<IpAddr>().map_or(Host::Nowhere, |address| {
            Host::Address(address.to_canonical())
        })
    }

    /// Return whether a new entry may have this host. As in Kafka, a text with a network prefix must be valid; other
    /// texts may name any host.
    pub fn is_valid(text: &str) -> bool {
        !text.contains('/') || Host::parse(text) != Host::Nowhere
    }

    /// Parse a network. An IPv4 network must be written in IPv4, because clients are compared by their IPv4 addresses.
    fn network(address: &str, bits: &str) -> Option<Host> {
        let address = network_address(address)?;
        let digits =
            (1..=3).contains(&bits.len()) && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| digits)?;
        let valid = match address {
            IpAddr::V4(_) => bits <= 32,
            IpAddr::V6(v6) => bits <= 128 && v6.to_ipv4_mapped().is_none(),
        };
        valid.then_some(Host::Network(address, bits))
    }

    fn includes(self, client: IpAddr) -> bool {
        match (self, client) {
            (Host::Any, _) => true,
            (Host::Address(address), _) => address == client,
            (Host::Network(IpAddr::V4(network), bits), IpAddr::V4(client)) => {
                let differ = u32::from(network) ^ u32::from(client);
                differ.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
            }
            (Host::Network(IpAddr::V6(network), bits), IpAddr::V6(client)) => {
                let differ = u128::from(network) ^ u128::from(client);
                differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
            }
            (Host::Network(..) | Host::Nowhere, _) => false,
        }
    }
}

/// Parse the address of a network. Kafka also takes IPv6 in brackets and decimal numbers with leading zeros.
fn network_address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Some(bracketed) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return bracketed.parse().ok().map(IpAddr::V6);
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits =
            (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| digits)?;
    }
    parts.next().is_none().then(|| IpAddr::from(octets))
}

/// An ACL entry together with its resource pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Whether the name is a prefix. Otherwise it is literal or `*`.
    pub prefixed: bool,
    /// Name or prefix of the resource.
    pub name: String,
    /// `User:alice`, or `User:*` for every user.
    pub principal: String,
    /// Host from which the entry applies.
    pub host: String,
    /// Operation that the entry allows or denies.
    pub operation: Operation,
    /// True for an allow entry, false for a deny entry.
    pub allow: bool,
}

/// A change of the rules. Removals are applied before additions.
#[derive(Debug, Default)]
pub struct AclDelta {
    /// Removed entries.
    pub removed: Vec<Acl>,
    /// Added entries.
    pub added: Vec<Acl>,
    /// `super.users`; `None` = unchanged.
    pub super_users: Option<Vec<String>>,
    /// `allow.everyone.if.no.acl.found`; `None` = unchanged.
    pub allow_everyone_without_acls: Option<bool>,
}

/// The client whose request is authorized.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// `User:alice`.
    pub principal: &'a str,
    /// The client's address; IPv4-mapped IPv6 addresses are converted to IPv4.
    pub address: IpAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    principal: Arc<str>,
    host_text: Arc<str>,
    host: Host,
    operation: Operation,
    allow: bool,
}

impl Entry {
    fn concerns(&self, who: Subject<'_>) -> bool {
        (&*self.principal == who.principal || &*self.principal == EVERYBODY)
            && self.host.includes(who.address)
    }

    fn covers(&self, wanted: Operation) -> bool {
        if self.operation == Operation::ALL || self.operation == wanted {
            return true;
        }
        self.allow
            && match wanted {
                Operation::DESCRIBE => matches!(
                    self.operation,
                    Operation::READ | Operation::WRITE | Operation::DELETE | Operation::ALTER
                ),
                Operation::DESCRIBE_CONFIGS => self.operation == Operation::ALTER_CONFIGS,
                _ => false,
            }
    }
}

type Entries = HashMap<Arc<str>, Arc<[Entry]>>;

/// The entries of one resource type.
#[derive(Debug, Clone, Default)]
struct TypeRules {
    literal: Entries,
    prefixed: Entries,
    /// Lengths of the prefixes in bytes, ascending: one look-up for each length.
    prefix_lengths: Vec<usize>,
}

impl TypeRules {
    fn matching<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r Entry> {
        let literal = self.literal.get(name);
        let everything = self.literal.get(WILDCARD).filter(|_| name != WILDCARD);
        let prefixed = self
            .prefix_lengths
            .iter()
            .map_while(|length| name.as_bytes().get(..*length))
            .filter_map(|prefix| self.prefixed.get(core::str::from_utf8(prefix).ok()?));
        literal
            .into_iter()
            .chain(everything)
            .chain(prefixed)
            .flat_map(|entries| entries.iter())
    }

    /// Change the entries of one pattern. After the last change `index_prefixes` must follow.
    fn change(&mut self, prefixed: bool, name: &str, change: PatternChange) {
        let entries = if prefixed {
            &mut self.prefixed
        } else {
            &mut self.literal
        };
        let mut changed: Vec<Entry> = entries.get(name).map_or_else(Vec::new, |old| {
            let kept = old.iter().filter(|entry| !change.removed.contains(*entry));
            kept.cloned().collect()
        });
        if !change.added.is_empty() {
            let mut known: HashSet<Entry> = changed.iter().cloned().collect();
            let new = change.added.into_iter();
            changed.extend(new.filter(|entry| known.insert(entry.clone())));
        }
        if changed.is_empty() {
            entries.remove(name);
        } else {
            entries.insert(name.into(), changed.into());
        }
    }

    fn index_prefixes(&mut self) {
        let mut lengths: Vec<usize> = self.prefixed.keys().map(|key| key.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        self.prefix_lengths = lengths;
    }
}

/// The changed entries of one pattern. One request may change 10,000 entries of a pattern, so no step of a change
/// compares each entry with each other.
#[derive(Debug, Default)]
struct PatternChange {
    removed: HashSet<Entry>,
    added: Vec<Entry>,
}

/// The rules as of one version. Immutable.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Version of the rules. It starts at 1 and grows by one with each change.
    pub version: u64,
    super_users: HashSet<Arc<str>>,
    allow_everyone_without_acls: bool,
    types: [TypeRules; TYPES],
}

impl Rules {
    /// Return whether `who` may perform the operation on the resource called `name`.
    pub fn permits(
        &self,
        who: Subject<'_>,
        wanted: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        if self.super_users.contains(who.principal) {
            return true;
        }
        let Some(rules) = self.types.get(usize::from(resource_type.0)) else {
            return false;
        };
        let mut without_acls = true;
        let mut allowed = false;
        for entry in rules.matching(name) {
            without_acls = false;
            if !entry.concerns(who) || !entry.covers(wanted) {
                continue;
            }
            if !entry.allow {
                return false;
            }
            allowed = true;
        }
        allowed || (without_acls && self.allow_everyone_without_acls)
    }

    /// Return whether `who` may perform the operation on any resource of the type (KIP-679): an allow entry exists that
    /// no deny entry fully covers.
    pub fn permits_any(
        &self,
        who: Subject<'_>,
        wanted: Operation,
        resource_type: ResourceType,
    ) -> bool {
        // As in Kafka, this name represents a resource without entries of its own.
        if self.permits(who, wanted, resource_type, "hardcode") {
            return true;
        }
        let Some(rules) = self.types.get(usize::from(resource_type.0)) else {
            return false;
        };
        let decides = |entries: &[Entry], allow: bool| {
            entries.iter().any(|entry| {
                entry.allow == allow
                    && entry.concerns(who)
                    && (entry.operation == wanted || entry.operation == Operation::ALL)
            })
        };
        let denied_everywhere = rules
            .literal
            .get(WILDCARD)
            .is_some_and(|entries| decides(entries, false));
        if denied_everywhere {
            return false;
        }
        let denied_by_prefix = |name: &str| {
            rules
                .prefix_lengths
                .iter()
                .map_while(|length| name.as_bytes().get(..*length))
                .filter_map(|prefix| rules.prefixed.get(core::str::from_utf8(prefix).ok()?))
                .any(|entries| decides(entries, false))
        };
        let literal = rules.literal.iter().any(|(name, entries)| {
            decides(entries, true)
                && (&**name == WILDCARD || !decides(entries, false) && !denied_by_prefix(name))
        });
        literal
            || rules
                .prefixed
                .iter()
                .any(|(name, entries)| decides(entries, true) && !denied_by_prefix(name))
    }

    /// Return the operations that `who` may perform on a resource, as Kafka's bit field.
    pub fn operations(&self, who: Subject<'_>, resource_type: ResourceType, name: &str) -> i32 {
        supported_operations(resource_type)
            .iter()
            .filter(|operation| self.permits(who, **operation, resource_type, name))
            .fold(0, |bits, operation| bits | 1 << operation.0)
    }

    fn apply(&mut self, delta: AclDelta) {
        self.version += 1;
        if let Some(users) = delta.super_users {
            self.super_users = users.into_iter().map(Into::into).collect();
        }
        if let Some(allow) = delta.allow_everyone_without_acls {
            self.allow_everyone_without_acls = allow;
        }
        let mut changes: [HashMap<(bool, String), PatternChange>; TYPES] = Default::default();
        for acl in delta.removed {
            let entry = entry(&acl);
            if let Some(patterns) = changes.get_mut(usize::from(acl.resource_type.0)) {
                let change = patterns.entry((acl.prefixed, acl.name)).or_default();
                change.removed.insert(entry);
            }
        }
        for acl in delta.added {
            let entry = entry(&acl);
            if let Some(patterns) = changes.get_mut(usize::from(acl.resource_type.0)) {
                let change = patterns.entry((acl.prefixed, acl.name)).or_default();
                change.added.push(entry);
            }
        }
        for (rules, patterns) in self.types.iter_mut().zip(changes) {
            let prefixes_changed = patterns.keys().any(|(prefixed, _)| *prefixed);
            for ((prefixed, name), change) in patterns {
                rules.change(prefixed, &name, change);
            }
            if prefixes_changed {
                rules.index_prefixes();
            }
        }
    }
}

fn entry(acl: &Acl) -> Entry {
    Entry {
        principal: acl.principal.as_str().into(),
        host_text: acl.host.as_str().into(),
        host: Host::parse(&acl.host),
        operation: acl.operation,
        allow: acl.allow,
    }
}

/// Return the operations of a resource type, ascending by code.
pub const fn supported_operations(resource_type: ResourceType) -> &'static [Operation] {
    use Operation as O;
    match resource_type {
        ResourceType::TOPIC => &[
            O::READ,
            O::WRITE,
            O::CREATE,
            O::DELETE,
            O::ALTER,
            O::DESCRIBE,
            O::DESCRIBE_CONFIGS,
            O::ALTER_CONFIGS,
        ],
        ResourceType::GROUP => &[
            O::READ,
            O::DELETE,
            O::DESCRIBE,
            O::DESCRIBE_CONFIGS,
            O::ALTER_CONFIGS,
        ],
        ResourceType::CLUSTER => &[
            O::CREATE,
            O::ALTER,
            O::DESCRIBE,
            O::CLUSTER_ACTION,
            O::DESCRIBE_CONFIGS,
            O::ALTER_CONFIGS,
            O::IDEMPOTENT_WRITE,
        ],
        ResourceType::TRANSACTIONAL_ID => &[O::WRITE, O::DESCRIBE, O::TWO_PHASE_COMMIT],
        ResourceType::DELEGATION_TOKEN => &[O::DESCRIBE],
        ResourceType::USER => &[O::CREATE_TOKENS, O::DESCRIBE_TOKENS],
        _ => &[],
    }
}

/// Holder of the current rules.
#[derive(Debug, Default)]
pub struct Authorizer {
    rules: ArcSwapOption<Rules>,
    writer: Mutex<()>,
}

impl Authorizer {
    /// Return the rules for the duration of one request; `None` without authorizer.
    #[inline]
    pub fn load(&self) -> Guard<Option<Arc<Rules>>> {
        self.rules.load()
    }

    /// Apply a change and return the new version. The first change enables the authorizer. Requests that start later
    /// use the new rules.
    pub fn apply(&self, delta: AclDelta) -> u64 {
        let _one_writer = self.writer.lock();
        let mut rules = self
            .rules
            .load()
            .as_ref()
            .map_or_else(Rules::default, |rules| Rules::clone(rules));
        rules.apply(delta);
        let version = rules.version;
        self.rules.store(Some(Arc::new(rules)));
        version
    }
}

pub(crate) mod decision_cache;
#[cfg(test)]
mod tests;
