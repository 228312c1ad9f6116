"""All metrics of one broker: its identity, sizes of the control plane, native code's metrics, and lag."""

from __future__ import annotations

import asyncio

from pybroker.broker.metadata.deletion_records import REMOVED
from pybroker.broker.observability.cluster_metrics import cluster_metrics
from pybroker.broker.observability.disk_metrics import disk_metrics
from pybroker.broker.observability.group_metrics import group_metrics
from pybroker.broker.observability.lag_metrics import CommittedPosition, committed_positions, lag_metrics
from pybroker.broker.observability.metric import Metric, add_metrics, identity_metrics
from pybroker.broker.observability.process_metrics import process_metrics
from pybroker.broker.observability.share_metrics import share_metrics
from pybroker.broker.observability.telemetry_metrics import telemetry_metrics
from pybroker.broker.observability.transaction_metrics import transaction_metrics
from pybroker.broker.services import Services
from pybroker.native import MetricFamilies
from pybroker.version import version

_VERSION = version()


def metrics_text(services: Services) -> str:
    """Return the text of /metrics, for a reporter on the loop's thread."""
    families, positions = _on_loop(services), committed_positions(services.groups)
    _elsewhere(services, families, positions)
    return families.text()


async def collect_metrics(services: Services) -> MetricFamilies:
    """Return all metrics. The loop reads the values that only the loop may read. A thread of its executor reads the
    many series of topics, partitions and groups; native code releases the GIL in that time.
    """
    await services.cluster_state.conditions.catch_up()
    await services.deleted_bytes.refresh()
    families, positions = _on_loop(services), committed_positions(services.groups)
    await asyncio.to_thread(_elsewhere, services, families, positions)
    return families


def _on_loop(services: Services) -> MetricFamilies:
    families = MetricFamilies()
    add_metrics(families, identity_metrics(services.cluster_id, services.broker_id, _VERSION))
    add_metrics(families, process_metrics())
    add_metrics(families, disk_metrics(services.disk_room.rooms, services.deleted_bytes.by_log_dir))
    add_metrics(families, _sizes(services))
    add_metrics(families, cluster_metrics(services))
    return families


def _elsewhere(services: Services, families: MetricFamilies, positions: list[CommittedPosition]) -> None:
    services.native.collect_metrics(families)
    config = services.config
    lags = lag_metrics(
        services.native.partitions,
        positions,
        now_ms=services.transactions.clock.wall_ms(),
        groups_max=config.get_int("metrics.groups.max"),
        partitions_max=config.get_int("metrics.partitions.max"),
    )
    add_metrics(families, lags)


def _sizes(services: Services) -> list[Metric]:
    """Return the sizes of the cluster in this broker's view. The help texts name Kafka's equivalents."""
    topics, image, conditions = services.cache.topics, services.view.image, services.cluster_state.conditions
    return [
        Metric(
            "kafka_server_kafkaserver_brokerstate", "State of the broker; 3: running (Kafka: BrokerState).", lambda: 3
        ),
        Metric("pybroker_cluster_topics", "Topics of the cluster (Kafka: GlobalTopicCount).", lambda: len(topics)),
        Metric(
            "pybroker_cluster_partitions",
            "Partitions of the cluster (Kafka: GlobalPartitionCount).",
            lambda: conditions.counts().partitions,
        ),
        Metric(
            "pybroker_leader_partitions",
            "Partitions that this broker leads (Kafka: LeaderCount).",
            lambda: conditions.led_here().partitions,
        ),
        Metric(
            "pybroker_cluster_deletions",
            "Deleted topics whose data is kept or not completely removed.",
            lambda: sum(record.state != REMOVED for record in image.deletions.values()),
        ),
        Metric(
            "pybroker_cluster_damaged_topics",
            "Topics that are not served because their metadata is damaged.",
            lambda: len(image.damaged),
        ),
        *group_metrics(services.groups),
        *share_metrics(services.shares.partitions),
        *transaction_metrics(services.transactions.coordinator),
        *telemetry_metrics(services.telemetry),
        Metric(
            "pybroker_authentications_succeeded_total",
            "SASL authentications that succeeded since the start (Kafka: successful-authentication-total).",
            lambda: services.sasl.succeeded,
            kind="counter",
        ),
        Metric(
            "pybroker_authentications_failed_total",
            "SASL authentications that failed since the start (Kafka: failed-authentication-total).",
            lambda: services.sasl.failed,
            kind="counter",
        ),
        Metric(
            "pybroker_cluster_brokers", "Brokers that are alive (Kafka: ActiveBrokerCount).", lambda: len(image.brokers)
        ),
    ]
