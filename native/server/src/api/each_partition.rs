//! Requests that ask the same of each partition that they name (ListOffsets, OffsetForLeaderEpoch).

use std::sync::Arc;

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::of_topic::{OfTopic, TopicRef};
use pybroker_replica::Partition;

use super::Call;
use crate::authorizer::Operation;
use crate::error_codes::Naming;
use crate::resolve::ResolvedTopic;
use crate::shared::Shared;

/// How a topic is named: decides which errors its partitions are told.
pub(super) fn naming(topic: TopicRef<'_>) -> Naming {
    match topic {
        TopicRef::Name(_) => Naming::Name,
        TopicRef::Id(_) | TopicRef::Both(..) => Naming::Id,
    }
}

/// For each topic the error with which all of it is refused: the client may not describe it. Decided on the
/// connection's thread, where its decisions are remembered.
pub(super) fn refusals<Q>(call: &Call<'_>, topics: &[OfTopic<'_, Q>]) -> Vec<Option<ErrorCode>> {
    let map = call.shared.replicas.snapshot();
    let view = call.shared.metadata.load();
    let access = call.access();
    let refusal = |topic: &OfTopic<'_, Q>| {
        let resolved = ResolvedTopic::of(&map, &view, topic.topic);
        access.refuse(Operation::DESCRIBE, topic.topic.name(), &resolved, &view)
    };
    topics.iter().map(refusal).collect()
}

/// Asks each partition: `ask` gets the topic, what is asked, and the partition or why there is none; `index` is where
/// the question has the partition's. The topics are those of the request, in its order.
pub(super) fn answer_each<'q, Q, A>(
    shared: &Shared,
    topics: &[OfTopic<'q, Q>],
    refused: &[Option<ErrorCode>],
    index: impl Fn(&Q) -> i32,
    mut ask: impl FnMut(TopicRef<'q>, &Q, Result<&Arc<Partition>, ErrorCode>) -> A,
) -> Vec<OfTopic<'q, A>> {
    let map = shared.replicas.snapshot();
    let view = shared.metadata.load();
    let answer = |(asked, refused): (&OfTopic<'q, Q>, &Option<ErrorCode>)| {
        let topic = asked.topic;
        let resolved = ResolvedTopic::of(&map, &view, topic);
        let partitions = asked.partitions.iter().map(|question| {
            let partition = match refused {
                Some(error) => Err(*error),
                None => resolved.partition(&view, index(question)),
            };
            ask(topic, question, partition)
        });
        OfTopic {
            topic,
            partitions: partitions.collect(),
        }
    };
    topics.iter().zip(refused).map(answer).collect()
}
