//! Replica keys and voter sets (KIP-853).

use std::fmt;
use std::sync::Arc;

use pybroker_model::Uuid;

/// A replica: a node id and the id of the disk with its log. A node with a wiped disk is another replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaKey {
    /// `node.id`.
    pub id: i32,
    /// The directory id of the metadata log's directory.
    pub directory: Uuid,
}

impl fmt::Debug for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.directory.as_u128() & 0xffff;
        write!(f, "{}@{directory:04x}", self.id)
    }
}

/// The replicas whose votes and flushed offsets count, by id; at most one replica for each node id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VoterSet(Arc<[ReplicaKey]>);

impl VoterSet {
    /// Create a set. Of several keys with one node id, the one with the lowest directory id is used.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = ReplicaKey>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup_by_key(|key| key.id);
        Self(keys.into())
    }

    /// Return an empty set, for a node that has not joined yet.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::new([]))
    }

    /// Return the voters, by id.
    pub fn iter(&self) -> impl Iterator<Item = ReplicaKey> + '_ {
        self.0.iter().copied()
    }

    /// Return the number of voters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Return whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Return whether exactly this replica is a voter, not just its node id with another directory id.
    #[must_use]
    pub fn contains(&self, key: ReplicaKey) -> bool {
        self.0.contains(&key)
    }

    /// Return whether a voter has this node id.
    #[must_use]
    pub fn has_id(&self, id: i32) -> bool {
        self.0.iter().any(|voter| voter.id == id)
    }

    /// Return the smallest number of voters that is a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Return whether `key` is the only voter.
    #[must_use]
    pub fn is_only(&self, key: ReplicaKey) -> bool {
        *self.0 == [key]
    }

    /// Return the set with one more voter.
    #[must_use]
    pub fn with(&self, key: ReplicaKey) -> Self {
        Self::new(self.iter().chain([key]))
    }

    /// Return the set without a voter.
    #[must_use]
    pub fn without(&self, key: ReplicaKey) -> Self {
        Self(self.iter().filter(|&voter| voter != key).collect())
    }
}
