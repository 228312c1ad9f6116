"""Metrics of the control plane. Native code collects them with its own, for the text of /metrics and for OTLP.

Labels have only values that this broker chose (ids, version), and the number of client metric names (KIP-714) is
limited, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from pybroker.native import MetricFamilies

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Metric(NamedTuple):
    """A metric, read at each scrape."""

    name: str
    help: str
    read: Callable[[], float]
    labels: Mapping[str, str] = _NO_LABELS
    kind: Literal["gauge", "counter", "summary"] = "gauge"
    """A counter grows until the next start. A summary is a pair of counters, which `suffix` distinguishes."""
    suffix: Literal["", "_count", "_sum"] = ""


def add_metrics(families: MetricFamilies, metrics: Iterable[Metric]) -> None:
    """Read the metrics and append them. Metrics of one name must be consecutive."""
    for metric in metrics:
        families.add(metric.name, metric.kind, metric.help, dict(metric.labels), metric.read(), metric.suffix)


def identity_metrics(cluster_id: str, broker_id: int, version: str) -> list[Metric]:
    """Return the broker's identity. In KIP-78 the cluster id is a gauge with a text value; Prometheus needs a label and
    the value 1."""
    return [
        Metric(
            "kafka_server_kafkaserver_clusterid_info",
            "Id of the cluster (Kafka's name: kafka.server:type=KafkaServer,name=ClusterId).",
            lambda: 1,
            {"cluster_id": cluster_id},
        ),
        Metric(
            "kafka_cluster_cluster_clusterid_info",
            "Id of the cluster (KIP-78's own name: kafka.cluster:type=Cluster,name=ClusterId).",
            lambda: 1,
            {"cluster_id": cluster_id},
        ),
        Metric(
            "pybroker_info",
            "Version, broker id and cluster id of this broker.",
            lambda: 1,
            {"version": version, "broker_id": str(broker_id), "cluster_id": cluster_id},
        ),
    ]
