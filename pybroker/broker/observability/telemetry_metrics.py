"""Metrics that clients have pushed (KIP-714), summed over all clients: no label names the client."""

from __future__ import annotations

from pybroker.broker.client_metrics.instances import Telemetry
from pybroker.broker.observability.metrics import Metric

_OWN = "pybroker_client_telemetry"


def telemetry_metrics(telemetry: Telemetry) -> list[Metric]:
    """Return the metrics. Their names are those of subscriptions; `telemetry.instances.NAMES_MAX` limits their
    number."""
    return [
        Metric(
            f"{_OWN}_instances",
            "Clients that ask which metrics they shall push (Kafka: ClientMetricsInstanceCount).",
            telemetry.instances,
        ),
        _count("pushes_total", "Pushes that were taken", telemetry.pushes),
        _count("push_bytes_total", "Bytes of metrics that were taken, compressed", telemetry.push_bytes),
        _count("unshown_total", "Numbers of metrics that nobody asked for, or beyond the limit", telemetry.unshown),
        *(
            Metric(
                f"{_OWN}_refused_total",
                "Requests that were refused, by error.",
                lambda count=count: count,  # type: ignore[misc]  # bound now
                {"error": code.name},
                "counter",
            )
            for code, count in sorted(telemetry.refused.items())
        ),
        *(
            Metric(
                "pybroker_client_metric_sum_total",
                "What clients have counted, all of them together, since the start of this broker.",
                lambda value=value: value,  # type: ignore[misc]  # bound now
                {"metric": name},
                "counter",
            )
            for name, value in sorted(telemetry.sums.items())
        ),
        *(
            Metric(
                "pybroker_client_metric_gauge",
                "What the client that has pushed it last has said.",
                lambda value=value: value,  # type: ignore[misc]  # bound now
                {"metric": name},
            )
            for name, value in sorted(telemetry.gauges.items())
        ),
    ]


def _count(name: str, what: str, number: int) -> Metric:
    return Metric(f"{_OWN}_{name}", f"{what}, since the start.", lambda: number, kind="counter")
