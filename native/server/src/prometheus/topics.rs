//! Kafka's BrokerTopicMetrics: by topic, and in total without a label.

use super::sources::Sources;
use crate::metrics::{Counter, TopicCounters};
use crate::prometheus::exposition::{Families, Kind};

/// Name, help text, and the function that returns the counter.
type Row = (&'static str, &'static str, fn(&TopicCounters) -> &Counter);

const ROWS: [Row; 8] = [
    (
        "messagesin",
        "Records appended by producers (Kafka: MessagesInPerSec).",
        |of| &of.messages_in,
    ),
    (
        "bytesin",
        "Bytes of record batches appended by producers (Kafka: BytesInPerSec).",
        |of| &of.bytes_in,
    ),
    (
        "bytesout",
        "Bytes of record batches sent to consumers (Kafka: BytesOutPerSec).",
        |of| &of.bytes_out,
    ),
    (
        "bytesrejected",
        "Bytes of batches refused as too large (Kafka: BytesRejectedPerSec).",
        |of| &of.bytes_rejected,
    ),
    (
        "totalproducerequests",
        "Partitions in Produce requests, counted for each request (Kafka: TotalProduceRequestsPerSec).",
        |of| &of.produce_requests,
    ),
    (
        "totalfetchrequests",
        "Partitions in Fetch responses, counted for each response (Kafka: TotalFetchRequestsPerSec).",
        |of| &of.fetch_requests,
    ),
    (
        "failedproducerequests",
        "Partitions in Produce requests whose append failed (Kafka: FailedProduceRequestsPerSec).",
        |of| &of.failed_produce_requests,
    ),
    (
        "failedfetchrequests",
        "Partitions in Fetch responses with an error (Kafka: FailedFetchRequestsPerSec).",
        |of| &of.failed_fetch_requests,
    ),
];

/// Write the metrics. Return the number of hosted topics that have data but no series.
pub(super) fn write(sources: &Sources<'_>, families: &mut Families) -> usize {
    let view = sources.shared.metadata.load();
    let slots = sources
        .shared
        .topics
        .all(|id| view.topic_by_id(id).is_some());
    let mut topics: Vec<_> = slots
        .iter()
        .filter_map(|(id, slot)| Some((view.topic_by_id(*id)?, slot)))
        .collect();
    topics.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    for (kafkas, help, read) in ROWS {
        let name = format!("kafka_server_brokertopicmetrics_{kafkas}_total");
        families.family(&name, Kind::Counter, help);
        families.series(&name, &[], sources.sum(|thread| read(&thread.topics)));
        for (topic, slot) in &topics {
            families.series(&name, &[("topic", &topic.name)], slot.sum(read));
        }
    }
    families.single(
        "kafka_server_brokertopicmetrics_replicationbytesout_total",
        Kind::Counter,
        "Bytes of record batches sent to other replicas (Kafka: ReplicationBytesOutPerSec).",
        sources.sum(|thread| &thread.replication_bytes_out),
    );
    let max = sources.shared.settings.load().metrics.topics_max;
    if topics.len() < max {
        return 0;
    }
    let map = sources.shared.replicas.snapshot();
    map.topics().len().saturating_sub(topics.len())
}
