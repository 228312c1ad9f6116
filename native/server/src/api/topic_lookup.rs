//! Look-up of the topics and partitions that a request names, or of the error to answer.

use std::sync::Arc;

use pybroker_model::{TopicId, Uuid};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::of_topic::TopicRef;
use pybroker_protocol::hot::{LeaderIdAndEpoch, NodeEndpoint};
use pybroker_replica::{HostedTopic, Partition, TopicMap};

use crate::error_codes::{Naming, unknown_topic};
use crate::metadata_view::MetadataView;

/// A topic of a request, looked up once.
///
/// The topic exists if the cluster's metadata has it. If the metadata lacks a hosted topic, the topic is being created,
/// or it was deleted and waits for its StopReplica. In both cases clients must not read or write it.
pub(crate) struct ResolvedTopic<'s> {
    /// The topic's partitions hosted on this broker.
    pub(crate) hosted: Option<&'s Arc<HostedTopic<Partition>>>,
    /// The topic's id, if the topic exists.
    pub(crate) id: Option<TopicId>,
    /// Error for its partitions if the topic does not exist.
    unknown: ErrorCode,
}

impl<'s> ResolvedTopic<'s> {
    /// Look the topic up by name.
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

    /// Look the topic up by id; the zero id belongs to no topic.
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

    /// Look the topic up by id and check its name, unless the name is empty.
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

    /// Look the topic up as the request names it.
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

    /// Return the topic's name, if it exists.
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

    /// Return the partition with this index, or the error to answer. If another broker hosts the partition, the error
    /// is NOT_LEADER_OR_FOLLOWER, and the client looks for the leader.
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

    /// Return the current leader of a partition, for clients that asked the wrong broker (KIP-951).
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

/// Return whether the error makes the client look for another leader.
pub(crate) fn points_elsewhere(error: ErrorCode) -> bool {
    error == ErrorCode::NOT_LEADER_OR_FOLLOWER || error == ErrorCode::FENCED_LEADER_EPOCH
}

/// Return the addresses of these brokers on a listener, without duplicates.
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
