"""The text of /metrics: what native code counts, followed by what the control plane knows.

prometheus-client does not write it: its counters are called `…_total` in the lines above them, and Kafka's JMX exporter
has some that end in `_count`. Its parser reads the page in `tests/observability`, and so does promtool.

Labels hold only what this broker chose (ids, version), so the number of series is bounded; so are the names of
clients' metrics (KIP-714).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Metric(NamedTuple):
    """A number, read when somebody looks."""

    name: str
    help: str
    read: Callable[[], float]
    labels: Mapping[str, str] = _NO_LABELS
    kind: Literal["gauge", "counter", "summary"] = "gauge"
    """A counter only grows, until the next start; a summary is a pair of counters, `suffix` says which."""
    suffix: Literal["", "_count", "_sum"] = ""


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render_metrics(metrics: Iterable[Metric]) -> str:
    """Prometheus text format 0.0.4. Metrics of one name must follow each other."""
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
    """Who this is. KIP-78 shows the cluster id as a gauge whose value is text; in Prometheus text is a label and the
    value is 1.
    """
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
