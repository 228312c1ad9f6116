//! Shared code for ListOffsets and OffsetForLeaderEpoch, which ask the same question about each partition that they
//! name.

use std::sync::Arc;

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::of_topic::{OfTopic, TopicRef};
use pybroker_replica::Partition;

use super::Call;
use crate::api::topic_lookup::ResolvedTopic;
use crate::authorizer::Operation;
use crate::error_codes::Naming;
use crate::shared::ServerState;

/// Return how the request names topics, which selects the error code for unknown topics.
pub(super) fn naming(topic: TopicRef<'_>) -> Naming {
    match topic {
        TopicRef::Name(_) => Naming::Name,
        TopicRef::Id(_) | TopicRef::Both(..) => Naming::Id,
    }
}

/// Return, for each topic, the error that refuses all of its partitions because the client may not describe the topic.
///
/// Runs on the connection's thread, which caches authorization decisions.
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

/// Answer each partition of the request, in its order.
///
/// `ask` gets the topic, the question, and the partition or the error if there is none. `index` reads the partition
/// index from a question.
pub(super) fn answer_each<'q, Q, A>(
    shared: &ServerState,
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
