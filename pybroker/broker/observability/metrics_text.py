"""The text of /metrics: metrics of native code, followed by those of the control plane.

It does not use prometheus-client, which names counters `…_total` in HELP and TYPE lines, while some counters of Kafka's
JMX exporter end in `_count`. `tests/observability` reads the page with prometheus-client's parser and with promtool.

Labels have only values that this broker chose (ids, version), and the number of client metric names (KIP-714) is
limited, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

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


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render_metrics(metrics: Iterable[Metric]) -> str:
    """Return Prometheus text format 0.0.4. Metrics of one name must be consecutive."""
    lines: list[str] = []
    last = ""
    for metric in metrics:
        if metric.name != last:
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            last = metric.name
        labels = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in metric.labels.items())
        number = metric.read()
        shown = str(int(number)) if number == int(number) else repr(number)
        name = metric.name + metric.suffix
        lines.append(f"{name}{{{labels}}} {shown}" if labels else f"{name} {shown}")
    return "\n".join(lines) + "\n" if lines else ""


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
