"""Builds OTLP messages. Pure."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as m
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from pybroker.native import MetricFamily, MetricSample, SlowRequest

SCOPE = InstrumentationScope(name="pybroker")
POINTS_A_REQUEST = 1_000
"""Number of points that one call encodes. The thread keeps the GIL during the call, about a millisecond."""
SLICE = 64
"""Number of samples that are converted between two pauses: about a millisecond of work."""
PAUSE_S = 0.0002
CUMULATIVE = m.AGGREGATION_TEMPORALITY_CUMULATIVE

STAGES = ("queue", "local", "remote", "response queue", "response send")
"""Parts of a request's time, in order, as in `kafka_network_requestmetrics_…`."""


def attributes(values: Mapping[str, object]) -> list[KeyValue]:
    """Convert texts and integers to attributes."""
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _value(value: object) -> AnyValue:
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))


def metrics(
    found: Iterable[MetricFamily], resource: Mapping[str, object], start_ns: int, now_ns: int
) -> Iterator[ExportMetricsServiceRequest]:
    """Yield all families in requests of about POINTS_A_REQUEST points. `start_ns` is the time at which counting began.
    """
    about = Resource(attributes=attributes(resource))
    pending: list[m.Metric] = []
    points = 0
    for family in found:
        for metric, count in _metrics(family, start_ns, now_ns):
            pending.append(metric)
            points += count
            if points >= POINTS_A_REQUEST:
                yield _request(about, pending)
                pending, points = [], 0
    if pending:
        yield _request(about, pending)


def _request(resource: Resource, found: Sequence[m.Metric]) -> ExportMetricsServiceRequest:
    scope = m.ScopeMetrics(scope=SCOPE, metrics=found)
    return ExportMetricsServiceRequest(resource_metrics=[m.ResourceMetrics(resource=resource, scope_metrics=[scope])])


def _metrics(family: MetricFamily, start_ns: int, now_ns: int) -> Iterator[tuple[m.Metric, int]]:
    """Yield a family in parts if it has many points."""
    for samples, count in _parts(family):
        metric = m.Metric(name=family.name, description=family.help)
        if family.kind == "gauge":
            metric.gauge.data_points.extend(_number(sample, 0, now_ns) for sample in samples)
        elif family.kind == "counter":
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = CUMULATIVE, True
            metric.sum.data_points.extend(_number(sample, start_ns, now_ns) for sample in samples)
        elif family.kind == "summary":
            metric.summary.data_points.extend(_summaries(samples, start_ns, now_ns))
        else:
            metric.histogram.aggregation_temporality = CUMULATIVE
            metric.histogram.data_points.extend(_histograms(samples, start_ns, now_ns))
        yield metric, count


def _parts(family: MetricFamily) -> Iterator[tuple[Iterator[MetricSample], int]]:
    """Split a family's samples. The samples of a summary or histogram stay together."""
    whole = len(family)
    size = whole if family.kind in ("histogram", "summary") else POINTS_A_REQUEST
    for begin in range(0, whole, max(size, 1)):
        count = min(size, whole - begin)
        yield _samples(family, begin, begin + count), count


def _samples(family: MetricFamily, begin: int, end: int) -> Iterator[MetricSample]:
    """Yield samples; after each `SLICE` of them, pause so that other threads can run."""
    for first in range(begin, end, SLICE):
        if first > begin:
            time.sleep(PAUSE_S)
        yield from family.samples(first, min(first + SLICE, end))


def _number(sample: MetricSample, start_ns: int, now_ns: int) -> m.NumberDataPoint:
    return m.NumberDataPoint(
        attributes=attributes(sample.labels),
        start_time_unix_nano=start_ns,
        time_unix_nano=now_ns,
        as_double=sample.value,
    )


def _series(samples: Iterable[MetricSample], own: str) -> Iterator[tuple[dict[str, str], list[MetricSample]]]:
    """Group the samples of summaries or histograms by their labels, ignoring the label `own` (quantile, le)."""
    by_labels: dict[tuple[tuple[str, str], ...], list[MetricSample]] = {}
    for each in samples:
        key = tuple(sorted((name, text) for name, text in each.labels.items() if name != own))
        by_labels.setdefault(key, []).append(each)
    for key, found in by_labels.items():
        yield dict(key), found


def _summaries(samples: Iterable[MetricSample], start_ns: int, now_ns: int) -> Iterator[m.SummaryDataPoint]:
    for labels, found in _series(samples, "quantile"):
        plain = {each.suffix: each.value for each in found if each.suffix}
        quantiles = [each for each in found if not each.suffix]
        yield m.SummaryDataPoint(
            attributes=attributes(labels),
            start_time_unix_nano=start_ns,
            time_unix_nano=now_ns,
            count=int(plain.get("_count", 0)),
            sum=plain.get("_sum", 0.0),
            quantile_values=[
                m.SummaryDataPoint.ValueAtQuantile(quantile=float(each.labels["quantile"]), value=each.value)
                for each in quantiles
            ],
        )


def _histograms(samples: Iterable[MetricSample], start_ns: int, now_ns: int) -> Iterator[m.HistogramDataPoint]:
    for labels, found in _series(samples, "le"):
        plain = {each.suffix: each.value for each in found if each.suffix != "_bucket"}
        buckets = sorted(
            (float(each.labels["le"]), int(each.value)) for each in found if each.suffix == "_bucket"
        )
        counts = [count for _, count in buckets]
        yield m.HistogramDataPoint(
            attributes=attributes(labels),
            start_time_unix_nano=start_ns,
            time_unix_nano=now_ns,
            count=int(plain.get("_count", 0)),
            sum=plain.get("_sum", 0.0),
            explicit_bounds=[bound for bound, _ in buckets if bound != float("inf")],
            bucket_counts=[after - before for before, after in itertools.pairwise([0, *counts])],
        )


def traces(found: Iterable[SlowRequest], resource: Mapping[str, object]) -> ExportTraceServiceRequest:
    """Return one trace per request: a span of the request, and child spans for the parts of its time that are not
    zero."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.extend(attributes(resource))
    scope = of_resource.scope_spans.add()
    scope.scope.CopyFrom(SCOPE)
    for each in found:
        scope.spans.extend(_spans(each))
    return request


def _spans(request: SlowRequest) -> Iterator[Span]:
    trace_id, whole = os.urandom(16), os.urandom(8)
    begin_ns = request.received_ns
    parts_ns = [micros * 1_000 for micros in request.stages_us]
    yield Span(
        trace_id=trace_id,
        span_id=whole,
        name=request.api,
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=begin_ns,
        end_time_unix_nano=begin_ns + sum(parts_ns),
        attributes=attributes(
            {
                "messaging.system": "kafka",
                "messaging.client.id": request.client_id,
                "client.address": request.host,
                "client.port": request.port,
                "enduser.id": request.principal,
                "pybroker.request.version": request.version,
                "pybroker.listener": request.listener,
                "pybroker.plane": "control" if request.control_plane else "data",
            }
        ),
    )
    for stage, length_ns in zip(STAGES, parts_ns, strict=True):
        if length_ns:
            yield Span(
                trace_id=trace_id,
                span_id=os.urandom(8),
                parent_span_id=whole,
                name=f"{request.api} {stage}",
                kind=Span.SPAN_KIND_INTERNAL,
                start_time_unix_nano=begin_ns,
                end_time_unix_nano=begin_ns + length_ns,
            )
        begin_ns += length_ns


def of_client(data: bytes, client: Mapping[str, str]) -> ExportMetricsServiceRequest:
    """Return a client's pushed metrics (KIP-714) with its identity in each resource. Raises DecodeError."""
    request: ExportMetricsServiceRequest = ExportMetricsServiceRequest.FromString(data)
    for each in request.resource_metrics:
        each.resource.attributes.extend(attributes(client))
    return request
