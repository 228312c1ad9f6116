"""The metrics of one broker: native text, identity, and the sizes that the control plane knows."""

from __future__ import annotations

from pybroker.metadata.deletion_records import REMOVED
from pybroker.observability.cluster_metrics import cluster_metrics
from pybroker.observability.group_metrics import group_metrics
from pybroker.observability.metrics import Metric, identity_metrics, render_metrics
from pybroker.observability.telemetry_metrics import telemetry_metrics
from pybroker.observability.transaction_metrics import transaction_metrics
from pybroker.services import Services
from pybroker.version import version

_VERSION = version()


def broker_metrics(services: Services) -> str:
    """Prometheus text; called on the loop's thread, each time somebody scrapes."""
    identity = identity_metrics(services.cluster_id, services.broker_id, _VERSION)
    return services.native.metrics() + render_metrics([*identity, *_sizes(services), *cluster_metrics(services)])


def _sizes(services: Services) -> list[Metric]:
    """What this broker knows of the cluster. Kafka's names for the same are given in the help texts."""
    topics, image, conditions = services.cache.topics, services.view.image, services.cluster_state.conditions
    return [
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
            "Deleted topics whose data is kept or whose removal is not finished.",
            lambda: sum(record.state != REMOVED for record in image.deletions.values()),
        ),
        Metric(
            "pybroker_cluster_damaged_topics",
            "Topics whose metadata cannot be read; not served.",
            lambda: len(image.damaged),
        ),
        *group_metrics(services.groups),
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
