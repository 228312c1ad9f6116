"""Metrics that clients have pushed (KIP-714), summed over all clients. No label identifies a client."""

from __future__ import annotations

from pybroker.broker.client_metrics.client_instances import Telemetry
from pybroker.broker.observability.metric import Metric

_OWN = "pybroker_client_telemetry"


def telemetry_metrics(telemetry: Telemetry) -> list[Metric]:
    """Return the metrics. Their names are those of subscriptions; `telemetry.instances.NAMES_MAX` limits their
    number."""
    return [
        Metric(
            f"{_OWN}_instances",
            "Clients that request which metrics to push (Kafka: ClientMetricsInstanceCount).",
            telemetry.instances,
        ),
        _count("pushes_total", "Accepted pushes", telemetry.pushes),
        _count("push_bytes_total", "Compressed bytes of accepted metrics", telemetry.push_bytes),
        _count(
            "unshown_total",
            "Data points dropped because no subscription requests them or there are too many",
            telemetry.unshown,
        ),
        *(
            Metric(
                f"{_OWN}_refused_total",
                "Refused requests by error.",
                lambda count=count: count,  # type: ignore[misc]  # bound now
                {"error": code.name},
                "counter",
            )
            for code, count in sorted(telemetry.refused.items())
        ),
        *(
            Metric(
                "pybroker_client_metric_sum_total",
                "Sum over all clients since the start of this broker.",
                lambda value=value: value,  # type: ignore[misc]  # bound now
                {"metric": name},
                "counter",
            )
            for name, value in sorted(telemetry.sums.items())
        ),
        *(
            Metric(
                "pybroker_client_metric_gauge",
                "Value that the most recent client pushed.",
                lambda value=value: value,  # type: ignore[misc]  # bound now
                {"metric": name},
            )
            for name, value in sorted(telemetry.gauges.items())
        ),
    ]


def _count(name: str, what: str, number: int) -> Metric:
    return Metric(f"{_OWN}_{name}", f"{what}, since the start.", lambda: number, kind="counter")
