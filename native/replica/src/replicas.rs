//! All partitions hosted here.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use pybroker_model::TopicId;

use crate::{Partition, TopicMap};

/// All partitions hosted here.
#[derive(Debug, Default)]
pub struct Replicas {
    map: ArcSwap<TopicMap<Partition>>,
}

impl Replicas {
    /// The map now, for the duration of one request: `snapshot().topic(id)?.partition(index)?`.
    #[inline]
    pub fn snapshot(&self) -> Guard<Arc<TopicMap<Partition>>> {
        self.map.load()
    }

    /// The topic that has this name among those hosted here.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.snapshot().topic_id(name)
    }
}
