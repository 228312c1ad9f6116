"""Metrics of share groups, under Kafka's names where they exist: `kafka.server:type=ShareSessionCache`,
`type=share-group-metrics` and `type=ShareGroupMetrics`."""

from __future__ import annotations

from pybroker.broker.coordinators.share_partition.manager import SharePartitions
from pybroker.broker.observability.metric import Metric

_SESSIONS = "kafka_server_sharesessioncache"
_GROUPS = "kafka_server_share_group_metrics"
_LETTERS = "kafka_server_sharegroupmetrics"


def share_metrics(partitions: SharePartitions) -> list[Metric]:
    """Return metrics of sessions, records in flight, and acknowledgements."""
    statistics = partitions.statistics
    return [
        Metric(
            f"{_SESSIONS}_sharesessionscount",
            "Members of share groups that read from this broker (Kafka: ShareSessionsCount).",
            lambda: len(partitions.sessions),
        ),
        Metric(
            f"{_SESSIONS}_sharepartitionscount",
            "Partitions that members of share groups read, counted for each member (Kafka: SharePartitionsCount).",
            lambda: partitions.sessions.partition_count,
        ),
        *(
            Metric(
                f"{_GROUPS}_record_acknowledgement_count",
                "Records that members of share groups acknowledged since the start, by type (Kafka: "
                "record-acknowledgement-count).",
                lambda number=number: number,  # type: ignore[misc]  # bound now
                {"ack_type": kind.name.lower()},
                kind="counter",
            )
            for kind, number in statistics.acknowledged.items()
        ),
        Metric(
            f"{_LETTERS}_deadletterqueuerecordcount_total",
            "Records of share groups in dead letter queues, written by this broker since its start (Kafka: "
            "DeadLetterQueueRecordCount, by group).",
            lambda: statistics.dead_letters,
            kind="counter",
        ),
        Metric(
            f"{_LETTERS}_deadletterqueuetotalproducerequests_total",
            "Appends to dead letter queues (Kafka: DeadLetterQueueTotalProduceRequestsPerSec, by group).",
            lambda: statistics.dead_letter_requests,
            kind="counter",
        ),
        Metric(
            f"{_LETTERS}_deadletterqueuefailedproducerequests_total",
            "Failed appends to dead letter queues (Kafka: DeadLetterQueueFailedProduceRequestsPerSec, by group).",
            lambda: statistics.dead_letter_requests_failed,
            kind="counter",
        ),
        Metric(
            "pybroker_share_records_acquired_total",
            "Deliveries of records to members of share groups since the start.",
            lambda: statistics.acquired,
            kind="counter",
        ),
        Metric(
            "pybroker_share_records_in_flight",
            "Records that members of share groups have acquired and not acknowledged.",
            lambda: partitions.acquired,
        ),
    ]
