//! Ids of topics and partitions. Internal maps use them, never names, as keys.

use crate::Uuid;
use std::collections::HashMap;
use std::fmt;

/// Topic id: a [`Uuid`] that is not zero. A value proves that the topic was resolved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(Uuid);

impl TopicId {
    /// Return `None` for the zero id, which means "no id" in the protocol.
    #[must_use]
    pub const fn new(id: Uuid) -> Option<Self> {
        if id.is_zero() { None } else { Some(Self(id)) }
    }

    /// Return a new random id.
    #[must_use]
    pub fn random() -> Self {
        // Uuid::random never returns zero.
        Self(Uuid::random())
    }

    /// Return the id as a plain [`Uuid`].
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A partition of a topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicIdPartition {
    /// The topic id.
    pub topic_id: TopicId,
    /// Index of the partition, from 0.
    pub partition: i32,
}

impl fmt::Display for TopicIdPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic_id, self.partition)
    }
}

/// Hasher for maps keyed by [`TopicId`]. It is one multiplication with a random seed for each process, because a client
/// may choose the id of a topic that it creates.
pub type BuildIdHasher = foldhash::fast::RandomState;

/// A map keyed by an id.
pub type IdMap<K, V> = HashMap<K, V, BuildIdHasher>;
