//! Who votes: replica keys and voter sets (KIP-853).

use std::fmt;
use std::sync::Arc;

use pybroker_model::Uuid;

/// A replica: a node id and the id of the disk that holds its log. A wiped disk makes another replica.
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

/// The replicas whose votes and flushed offsets count, in the order of their ids. At most one replica a node id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VoterSet(Arc<[ReplicaKey]>);

impl VoterSet {
    /// The voters `keys`; of several with one id the first by directory id stays.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = ReplicaKey>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup_by_key(|key| key.id);
        Self(keys.into())
    }

    /// No voters: the set of a node that has not joined yet.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::new([]))
    }

    /// The voters in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = ReplicaKey> + '_ {
        self.0.iter().copied()
    }

    /// Number of voters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no voters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether exactly this replica votes: a node id with another directory id does not.
    #[must_use]
    pub fn contains(&self, key: ReplicaKey) -> bool {
        self.0.contains(&key)
    }

    /// Whether a voter has this node id.
    #[must_use]
    pub fn has_id(&self, id: i32) -> bool {
        self.0.iter().any(|voter| voter.id == id)
    }

    /// The smallest number of voters that is a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Whether `key` is the only voter.
    #[must_use]
    pub fn is_only(&self, key: ReplicaKey) -> bool {
        *self.0 == [key]
    }

    /// The set with one more voter.
    #[must_use]
    pub fn with(&self, key: ReplicaKey) -> Self {
        Self::new(self.iter().chain([key]))
    }

    /// The set without a voter.
    #[must_use]
    pub fn without(&self, key: ReplicaKey) -> Self {
        Self(self.iter().filter(|&voter| voter != key).collect())
    }
}
