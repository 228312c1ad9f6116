//! From what a request names to a partition hosted here, or to what the client must be told instead.

use std::sync::Arc;

use pybroker_model::{TopicId, Uuid};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::of_topic::TopicRef;
use pybroker_protocol::hot::{LeaderIdAndEpoch, NodeEndpoint};
use pybroker_replica::{HostedTopic, Partition, TopicMap};

use crate::error_codes::{Naming, unknown_topic};
use crate::metadata_view::MetadataView;

/// A topic of a request, resolved once.
///
/// It is there when the cluster shows it: what is hosted but not shown is being created or, after DeleteTopics was
/// answered, still waits for its StopReplica. Nothing may be written to it or read from it.
pub(crate) struct ResolvedTopic<'s> {
    /// What is hosted of it here.
    pub(crate) hosted: Option<&'s Arc<HostedTopic<Partition>>>,
    /// Its id, if the cluster knows it.
    pub(crate) id: Option<TopicId>,
    /// What its partitions are told if there is no such topic.
    unknown: ErrorCode,
}

impl<'s> ResolvedTopic<'s> {
    /// By name.
    #[inline]
    pub(crate) fn by_name(map: &'s TopicMap<Partition>, view: &MetadataView, name: &str) -> Self {
        let hosted = map
            .topic_id(name)
            .filter(|id| view.topic_by_id(*id).is_some())
            .and_then(|id| map.topic(id));
        let id = hosted
            .map(|topic| topic.id)
            .or_else(|| view.topic_by_name(name).map(|topic| topic.id));
        ResolvedTopic {
            hosted,
            id,
            unknown: unknown_topic(Naming::Name),
        }
    }

    /// By id; the zero id is no topic's.
    #[inline]
    pub(crate) fn by_id(map: &'s TopicMap<Partition>, view: &MetadataView, id: Uuid) -> Self {
        let id = TopicId::new(id).filter(|id| view.topic_by_id(*id).is_some());
        let hosted = id.and_then(|id| map.topic(id));
        ResolvedTopic {
            hosted,
            id,
            unknown: unknown_topic(Naming::Id),
        }
    }

    /// By an id and, unless it is empty, the name that the topic must have.
    fn by_both(map: &'s TopicMap<Partition>, view: &MetadataView, name: &str, id: Uuid) -> Self {
        let by_id = Self::by_id(map, view, id);
        if name.is_empty() {
            return by_id;
        }
        let by_name = Self::by_name(map, view, name);
        if by_id.id == by_name.id {
            return by_id;
        }
        ResolvedTopic {
            hosted: None,
            id: None,
            unknown: ErrorCode::INCONSISTENT_TOPIC_ID,
        }
    }

    /// As a message names it.
    pub(crate) fn of(
        map: &'s TopicMap<Partition>,
        view: &MetadataView,
        topic: TopicRef<'_>,
    ) -> Self {
        match topic {
            TopicRef::Name(name) => Self::by_name(map, view, name),
            TopicRef::Id(id) => Self::by_id(map, view, id),
            TopicRef::Both(name, id) => Self::by_both(map, view, name, id),
        }
    }

    /// Its name, if the cluster knows it.
    #[inline]
    pub(crate) fn name<'n>(&self, view: &'n MetadataView) -> Option<&'n str>
    where
        's: 'n,
    {
        match self.hosted {
            Some(hosted) => Some(&hosted.name),
            None => Some(&view.topic_by_id(self.id?)?.name),
        }
    }

    /// The partition with this index, or what to answer. A topic or partition that the cluster has but this broker
    /// does not is NOT_LEADER_OR_FOLLOWER: the client looks for the leader.
    #[inline]
    pub(crate) fn partition(
        &self,
        view: &MetadataView,
        index: i32,
    ) -> Result<&'s Arc<Partition>, ErrorCode> {
        match self.hosted.and_then(|topic| topic.partition(index)) {
            Some(partition) => Ok(partition),
            None => Err(self.absent(view, index)),
        }
    }

    #[cold]
    fn absent(&self, view: &MetadataView, index: i32) -> ErrorCode {
        let Some(id) = self.id else {
            return self.unknown;
        };
        match view
            .topic_by_id(id)
            .map(|topic| topic.partition(index).is_some())
        {
            Some(true) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
            _ => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        }
    }

    /// Who leads a partition, for clients that asked the wrong broker (KIP-951).
    pub(crate) fn current_leader(
        &self,
        view: &MetadataView,
        index: i32,
    ) -> Option<LeaderIdAndEpoch> {
        let partition = view.topic_by_id(self.id?)?.partition(index)?;
        (partition.leader >= 0).then_some(LeaderIdAndEpoch {
            leader_id: partition.leader,
            leader_epoch: partition.leader_epoch,
        })
    }
}

/// Whether an error tells the client to look for another leader.
pub(crate) fn points_elsewhere(error: ErrorCode) -> bool {
    error == ErrorCode::NOT_LEADER_OR_FOLLOWER || error == ErrorCode::FENCED_LEADER_EPOCH
}

/// Addresses of these brokers on a listener, each once.
pub(crate) fn endpoints<'v>(
    view: &'v MetadataView,
    listener: &str,
    leaders: &[i32],
) -> Vec<NodeEndpoint<'v>> {
    let mut endpoints: Vec<NodeEndpoint<'v>> = Vec::new();
    for leader in leaders {
        if endpoints.iter().any(|known| known.node_id == *leader) {
            continue;
        }
        if let Some((broker, endpoint)) = view
            .broker(*leader)
            .and_then(|broker| Some((broker, broker.endpoint(listener)?)))
        {
            endpoints.push(NodeEndpoint {
                node_id: broker.id,
                host: &endpoint.host,
                port: endpoint.port,
                rack: broker.rack.as_deref(),
            });
        }
    }
    endpoints
}
