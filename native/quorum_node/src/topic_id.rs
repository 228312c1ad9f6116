//! The id of the metadata topic, shared with other threads.

use std::sync::Arc;

use parking_lot::Mutex;
use pybroker_model::Uuid;

/// The id in this node's log, committed or not. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct TopicIdCell(Arc<Mutex<Option<Uuid>>>);

impl TopicIdCell {
    pub(crate) fn set(&self, id: Option<Uuid>) {
        *self.0.lock() = id;
    }

    /// Return whether `id` names the metadata topic: the sentinel, or the topic's unique id.
    #[must_use]
    pub fn names(&self, id: Uuid) -> bool {
        id == Uuid::METADATA || *self.0.lock() == Some(id)
    }
}
