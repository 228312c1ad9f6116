//! This broker's metadata image: an immutable snapshot that Python publishes and data threads load.
//!
//! Deltas arrive in order. One writer copies the maps (of `Arc`s), changes the copy and swaps it in; a request uses one
//! snapshot to its end.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_model::{BuildIdHasher, TopicId, Uuid};

use crate::authorizer::Authorizer;
use crate::leases::cached_responses::CachedResponses;
use crate::quotas::Quotas;

/// Advertised address of a broker's listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Advertised host.
    pub host: Arc<str>,
    /// Advertised port.
    pub port: i32,
}

/// A live broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Broker id.
    pub id: i32,
    /// `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Addresses of the broker, one for each client listener.
    pub endpoints: Vec<Endpoint>,
}

impl Broker {
    /// Return the advertised address of `listener`; `None` if the broker does not have it.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| &*endpoint.listener == listener)
    }
}

/// State of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Partition index.
    pub partition: i32,
    /// Broker id of the leader; negative if there is none.
    pub leader: i32,
    /// Leader epoch.
    pub leader_epoch: i32,
    /// In-sync replicas.
    pub isr: Vec<i32>,
    /// All replicas, preferred leader first.
    pub replicas: Vec<i32>,
    /// Replicas on failed log directories, as the controller reports them. Replicas on dead brokers are not listed,
    /// because `brokers` shows them.
    pub offline: Vec<i32>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Topic id.
    pub id: TopicId,
    /// Topic name.
    pub name: Arc<str>,
    /// Internal topic of the broker (`__consumer_offsets`).
    pub internal: bool,
    /// Partitions, ascending by index.
    pub partitions: Vec<PartitionMetadata>,
}

impl TopicMetadata {
    /// Return the partition with this index.
    pub fn partition(&self, index: i32) -> Option<&PartitionMetadata> {
        let position = usize::try_from(index).ok()?;
        match self.partitions.get(position) {
            Some(partition) if partition.partition == index => Some(partition),
            _ => self
                .partitions
                .iter()
                .find(|partition| partition.partition == index),
        }
    }
}

/// Finalized feature levels (KIP-584).
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// Epoch of the finalized features; grows with each change.
    pub epoch: i64,
    /// Levels by feature name. There are only a few.
    pub levels: Vec<(String, i16)>,
}

impl Features {
    /// Return the finalized level of a feature; `None` if there is none.
    pub fn level(&self, name: &str) -> Option<i16> {
        let found = self.levels.iter().find(|(known, _)| known == name);
        found.map(|&(_, level)| level)
    }
}

/// One snapshot of the metadata.
#[derive(Debug, Clone, Default)]
pub struct MetadataView {
    /// Version of the snapshot; grows by one with each delta.
    pub version: u64,
    /// The cluster's id (KIP-78).
    pub cluster_id: Arc<str>,
    /// Broker id of the controller; negative if unknown.
    pub controller_id: i32,
    /// Live brokers, ascending by id.
    pub brokers: Arc<[Broker]>,
    by_name: BTreeMap<Arc<str>, Arc<TopicMetadata>>,
    by_id: HashMap<TopicId, Arc<TopicMetadata>, BuildIdHasher>,
}

impl MetadataView {
    /// Return the current topic of this name.
    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<TopicMetadata>> {
        self.by_name.get(name)
    }

    /// Return the topic with this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicMetadata>> {
        self.by_id.get(&id)
    }

    /// Return all topics, ascending by name.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<TopicMetadata>> {
        self.by_name.values()
    }

    /// Return the topics whose names begin with `prefix` and come after `after`, ascending by name.
    pub fn topics_between<'v>(
        &'v self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'v TopicMetadata> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        self.by_name
            .range::<str, _>((from, Bound::Unbounded))
            // Skip the comparison with an empty prefix: the processor traps on its invalid address, which costs more
            // than everything else here.
            .take_while(move |(name, _)| prefix.is_empty() || name.starts_with(prefix))
            .map(|(_, topic)| &**topic)
    }

    /// Return the live broker with this id.
    pub fn broker(&self, id: i32) -> Option<&Broker> {
        self.brokers.iter().find(|broker| broker.id == id)
    }
}

/// A change of the view. Removals are applied before changes, so that one delta can move a name to a new topic.
#[derive(Debug, Default)]
pub struct MetadataDelta {
    /// The new list of live brokers.
    pub brokers: Option<Vec<Broker>>,
    /// The new controller.
    pub controller_id: Option<i32>,
    /// Removed topics.
    pub topics_removed: Vec<TopicId>,
    /// New or changed topics, complete.
    pub topics_changed: Vec<TopicMetadata>,
}

/// A function that returns whether an id names the metadata topic.
pub type NamesMetadataTopic = Box<dyn Fn(Uuid) -> bool + Send + Sync>;

/// Holder of the current view.
pub struct MetadataHolder {
    /// The view that requests load.
    current: ArcSwap<MetadataView>,
    /// Held while a delta is applied, so that no delta is lost.
    writer: Mutex<()>,
    /// Access control.
    authorizer: Authorizer,
    /// Client quotas.
    quotas: Quotas,
    /// Finalized features.
    features: ArcSwap<Features>,
    /// Cached responses that depend on this data; every change invalidates them.
    cached_responses: CachedResponses,
    /// Unset without a metadata quorum.
    names_metadata_topic: OnceLock<NamesMetadataTopic>,
}

impl fmt::Debug for MetadataHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataHolder").finish_non_exhaustive()
    }
}

impl MetadataHolder {
    /// Create an empty view of a cluster.
    pub fn new(cluster_id: &str) -> Self {
        let view = MetadataView {
            cluster_id: cluster_id.into(),
            controller_id: -1,
            ..MetadataView::default()
        };
        MetadataHolder {
            current: ArcSwap::from_pointee(view),
            writer: Mutex::new(()),
            authorizer: Authorizer::default(),
            quotas: Quotas::default(),
            features: ArcSwap::default(),
            cached_responses: CachedResponses::default(),
            names_metadata_topic: OnceLock::new(),
        }
    }

    /// Set the function that recognizes the ids of the metadata topic. Later calls have no effect.
    pub fn set_metadata_topic(&self, names: NamesMetadataTopic) {
        drop(self.names_metadata_topic.set(names));
    }

    /// Return whether an id names the metadata topic of this broker's quorum.
    pub(crate) fn is_metadata_topic(&self, id: Uuid) -> bool {
        self.names_metadata_topic
            .get()
            .is_some_and(|names| names(id))
    }

    /// Return the current view, for the duration of one request.
    #[inline]
    pub fn load(&self) -> arc_swap::Guard<Arc<MetadataView>> {
        self.current.load()
    }

    /// Return the finalized features, for the duration of one request.
    pub fn features(&self) -> arc_swap::Guard<Arc<Features>> {
        self.features.load()
    }

    /// Replace the finalized features; requests that start later see them.
    pub fn set_features(&self, features: Features) {
        self.cached_responses.invalidate_all();
        self.features.store(Arc::new(features));
    }

    /// Return the authorizer.
    #[inline]
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Return the client quotas.
    #[inline]
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Return the cached responses of the control plane.
    pub fn cached_responses(&self) -> &CachedResponses {
        &self.cached_responses
    }

    /// Apply a delta and return the version that includes it; requests that start later see it.
    pub fn apply(&self, delta: MetadataDelta) -> u64 {
        let _one_writer = self.writer.lock();
        self.cached_responses.invalidate_all();
        let mut view = MetadataView::clone(&self.current.load());
        view.version += 1;
        if let Some(mut brokers) = delta.brokers {
            brokers.sort_by_key(|broker| broker.id);
            view.brokers = brokers.into();
        }
        if let Some(controller_id) = delta.controller_id {
            view.controller_id = controller_id;
        }
        for id in delta.topics_removed {
            view.remove(id);
        }
        for mut topic in delta.topics_changed {
            topic
                .partitions
                .sort_by_key(|partition| partition.partition);
            view.remove(topic.id);
            // A name belongs to one topic, so a later incarnation replaces an earlier one.
            if let Some(earlier) = view.by_name.get(&topic.name).map(|earlier| earlier.id) {
                view.remove(earlier);
            }
            let topic = Arc::new(topic);
            view.by_id.insert(topic.id, Arc::clone(&topic));
            view.by_name.insert(Arc::clone(&topic.name), topic);
        }
        let version = view.version;
        self.current.store(Arc::new(view));
        version
    }
}

impl MetadataView {
    fn remove(&mut self, id: TopicId) {
        if let Some(topic) = self.by_id.remove(&id) {
            self.by_name.remove(&topic.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(id: u128, name: &str) -> TopicMetadata {
        let id = TopicId::new(Uuid::from_bytes(id.to_be_bytes())).expect("not zero");
        TopicMetadata {
            id,
            name: name.into(),
            internal: false,
            partitions: Vec::new(),
        }
    }

    #[test]
    fn a_name_passes_to_the_new_incarnation() {
        let holder = MetadataHolder::new("c");
        let old = topic(1, "a");
        let new = topic(2, "a");
        let (old_id, new_id) = (old.id, new.id);
        assert_eq!(
            holder.apply(MetadataDelta {
                topics_changed: vec![old],
                ..MetadataDelta::default()
            }),
            1
        );
        let before = holder.load();
        assert_eq!(
            holder.apply(MetadataDelta {
                topics_removed: vec![old_id],
                topics_changed: vec![new, topic(3, "b")],
                ..MetadataDelta::default()
            }),
            2
        );
        let view = holder.load();
        assert!(view.topic_by_id(old_id).is_none());
        assert_eq!(view.topic_by_name("a").map(|topic| topic.id), Some(new_id));
        assert_eq!(
            view.topics().map(|topic| &*topic.name).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(
            before.topic_by_name("a").map(|topic| topic.id),
            Some(old_id),
            "a loaded view does not change"
        );
    }
}
