"""From the text of /metrics to OTLP's messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from pybroker.broker.observability.otlp import metrics_parser, otlp_messages
from pybroker.broker.observability.otlp.metrics_parser import families

PAGE = """# HELP up Whether it is.
# TYPE up gauge
up 1
# TYPE asked_total counter
asked_total{request="Fetch",text="a\\"b\\\\c\\nd"} 5
asked_total{request="Produce"} 7
a line that nobody understands
# TYPE took summary
took{request="Fetch",quantile="0.5"} 2.5
took{request="Fetch",quantile="0.99"} NaN
took_sum{request="Fetch"} 10
took_count{request="Fetch"} 4
# TYPE long histogram
long_bucket{le="0.1"} 1
long_bucket{le="1"} 3
long_bucket{le="+Inf"} 4
long_sum 9.5
long_count 4
# HELP nothing Has no line.
# TYPE nothing gauge
"""


def exported(text: str) -> list[Any]:
    requests = otlp_messages.metrics(families(text), {"service.name": "x"}, 10, 20)
    return [metric for one in requests for metric in one.resource_metrics[0].scope_metrics[0].metrics]


def test_every_kind() -> None:
    up, asked, took, long = exported(PAGE)
    assert (up.name, up.description, up.gauge.data_points[0].as_double) == ("up", "Whether it is.", 1)
    first, second = asked.sum.data_points
    assert asked.sum.is_monotonic
    assert asked.sum.aggregation_temporality == otlp_messages.CUMULATIVE
    assert [one.value.string_value for one in first.attributes] == ["Fetch", 'a"b\\c\nd']
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
    text = "# TYPE many gauge\n" + "".join(f'many{{number="{number}"}} {number}\n' for number in range(7))
    found = exported(text)
    assert [len(each.gauge.data_points) for each in found] == [3, 3, 1]
    assert len(list(otlp_messages.metrics(families(text), {}, 10, 20))) == 3


def test_others_run_after_a_few_lines_and_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 partitions the page has a hundred thousand lines: seconds of work, in which the broker's loop has to
    get the interpreter at once."""
    pauses: list[float] = []
    monkeypatch.setattr(metrics_parser, "time", SimpleNamespace(sleep=pauses.append))
    lines = 10 * metrics_parser.ITEMS
    for kind, own in (("gauge", 'x="{}"'), ("counter", 'x="{}"'), ("summary", 'x="{}",quantile="0.5"')):
        pauses.clear()
        text = f"# TYPE many {kind}\n" + "".join(f"many{{{own.format(number)}}} 1\n" for number in range(lines))
        assert sum(1 for _ in families(text)) == 1
        of_lines = len(pauses)
        assert of_lines >= 10
        exported(text)
        assert len(pauses) >= 2 * of_lines + 10, f"the points of a {kind}"
    assert set(pauses) == {metrics_parser.PAUSE_S}


def test_a_long_page_is_cut_at_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = exported(PAGE)
    monkeypatch.setattr(metrics_parser, "CHUNK_CHARACTERS", 3)
    assert [exported(PAGE), exported(PAGE.removesuffix("\n"))] == [at_once] * 2


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
