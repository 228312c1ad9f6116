"""Conversion of metrics to OTLP messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from pybroker.broker.observability.otlp import otlp_messages
from pybroker.native import MetricFamilies


def exported(families: MetricFamilies) -> list[Any]:
    requests = otlp_messages.metrics(families.take(), {"service.name": "x"}, 10, 20)
    return [metric for each in requests for metric in each.resource_metrics[0].scope_metrics[0].metrics]


def many(samples: int, kind: str, **labels: str) -> MetricFamilies:
    families = MetricFamilies()
    for number in range(samples):
        families.add("many", kind, "", {"x": str(number), **labels}, number)
    return families


def test_every_kind() -> None:
    families = MetricFamilies()
    families.add("up", "gauge", "Whether it is.", {}, 1)
    families.add("asked_total", "counter", "", {"request": "Fetch", "text": 'a"b\\c\nd'}, 5)
    families.add("asked_total", "counter", "", {"request": "Produce"}, 7)
    for quantile, value in ("0.5", 2.5), ("0.99", float("nan")):
        families.add("took", "summary", "", {"request": "Fetch", "quantile": quantile}, value)
    families.add("took", "summary", "", {"request": "Fetch"}, 10, suffix="_sum")
    families.add("took", "summary", "", {"request": "Fetch"}, 4, suffix="_count")
    for bound, count in ("0.1", 1), ("1", 3), ("+Inf", 4):
        families.add("long", "histogram", "", {"le": bound}, count, suffix="_bucket")
    families.add("long", "histogram", "", {}, 9.5, suffix="_sum")
    families.add("long", "histogram", "", {}, 4, suffix="_count")
    up, asked, took, long = exported(families)
    assert (up.name, up.description, up.gauge.data_points[0].as_double) == ("up", "Whether it is.", 1)
    first, second = asked.sum.data_points
    assert asked.sum.is_monotonic
    assert asked.sum.aggregation_temporality == otlp_messages.CUMULATIVE
    assert [each.value.string_value for each in first.attributes] == ["Fetch", 'a"b\\c\nd']
    assert (first.as_double, first.start_time_unix_nano, first.time_unix_nano) == (5, 10, 20)
    assert second.as_double == 7
    (summary,) = took.summary.data_points
    assert (summary.count, summary.sum) == (4, 10)
    assert [each.quantile for each in summary.quantile_values] == [0.5, 0.99]
    (histogram,) = long.histogram.data_points
    assert (list(histogram.explicit_bounds), list(histogram.bucket_counts)) == ([0.1, 1.0], [1, 2, 1])
    assert (histogram.count, histogram.sum) == (4, 9.5)


def test_many_points_are_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_messages, "POINTS_A_REQUEST", 3)
    assert [len(each.gauge.data_points) for each in exported(many(7, "gauge"))] == [3, 3, 1]
    assert len(list(otlp_messages.metrics(many(7, "gauge").take(), {}, 10, 20))) == 3


@pytest.mark.parametrize(("kind", "labels"), [("gauge", {}), ("counter", {}), ("summary", {"quantile": "0.5"})])
def test_other_threads_run_after_a_few_samples(
    kind: str, labels: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 partitions have a hundred thousand samples: converting them takes seconds, during which the broker's loop
    must get the interpreter at once."""
    pauses: list[float] = []
    monkeypatch.setattr(otlp_messages, "time", SimpleNamespace(sleep=pauses.append))
    exported(many(10 * otlp_messages.SLICE, kind, **labels))
    assert pauses == [otlp_messages.PAUSE_S] * 9


def slow(*stages_us: int) -> Any:
    return SimpleNamespace(
        api="Fetch",
        version=13,
        received_ns=1_000,
        stages_us=list(stages_us),
        client_id="app",
        principal="User:me",
        listener="PLAINTEXT",
        host="127.0.0.1",
        port=9,
        control_plane=False,
    )


def test_a_trace_has_the_parts_that_took_time() -> None:
    request = otlp_messages.traces([slow(1, 2, 0, 0, 4), slow(0, 0, 0, 0, 0)], {"a": "b"})
    whole, queue, local, sent, other = request.resource_spans[0].scope_spans[0].spans
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (1_000, 8_000)
    assert [each.name for each in (queue, local, sent)] == ["Fetch queue", "Fetch local", "Fetch response send"]
    assert (local.start_time_unix_nano, local.end_time_unix_nano) == (2_000, 4_000)
    assert {each.parent_span_id for each in (queue, local, sent)} == {whole.span_id}
    assert other.trace_id != whole.trace_id


def test_what_a_client_pushes_gets_its_name() -> None:
    pushed = ExportMetricsServiceRequest()
    pushed.resource_metrics.add().scope_metrics.add().metrics.add(name="org.apache.kafka.x")
    found = otlp_messages.of_client(pushed.SerializeToString(), {"client_id": "app"})
    (resource,) = found.resource_metrics
    assert [(one.key, one.value.string_value) for one in resource.resource.attributes] == [("client_id", "app")]
    assert resource.scope_metrics[0].metrics[0].name == "org.apache.kafka.x"
    with pytest.raises(DecodeError):
        otlp_messages.of_client(b"\x0a\xff", {})
