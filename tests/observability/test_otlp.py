"""OTLP: metrics, traces of slow requests of both planes, and metrics pushed by clients arrive at a collector. A
collector that is down, slow or returns errors costs nothing but the missing data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import confluent_kafka as confluent
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from pybroker.testing.child_processes import free_port
from tests.configs.test_client_metrics import alter
from tests.observability.otlp_receiver import Receiver
from tests.observability.test_metrics_page import consume, create, produce
from tests.support.brokers import PybrokerProcess
from tests.support.cluster import until

SECRET = "token-of-the-collector"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def started(folder: Path, receiver: Receiver, **settings: str) -> PybrokerProcess:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    broker = PybrokerProcess(
        folder,
        {
            "otlp.endpoint": receiver.endpoint,
            "otlp.headers": f"Authorization=Bearer {SECRET}, X-Scope = one",
            "otlp.interval.ms": "500",
            "otlp.resource.attributes": "deployment.environment.name=tests",
            **given,
        },
    )
    broker.start()
    return broker


def point(metrics: Mapping[str, Metric], name: str, **labels: str) -> float | None:
    """Return the value with these attributes, once it exists."""
    metric = metrics.get(name, Metric())
    for each in (*metric.gauge.data_points, *metric.sum.data_points):
        if {one.key: one.value.string_value for one in each.attributes} == labels:
            return float(each.as_double)
    return None


def test_metrics_and_traces_arrive(tmp_path: Path, receiver: Receiver) -> None:
    # A member waits for others for so long, and a Fetch for records.
    broker = started(tmp_path / "broker", receiver, slow_request_log_ms="50", group_initial_rebalance_delay_ms="200")
    try:
        create(broker, confluent.admin.NewTopic("orders", 2, 1))
        produce(broker, "orders", 50)
        consume(broker, "orders", 20, "billing")
        name = "kafka_server_brokertopicmetrics_messagesin_total"
        until(lambda: point(receiver.metrics(), name) == 50)
        metrics = receiver.metrics()
        assert metrics[name].sum.is_monotonic
        assert metrics[name].sum.data_points[0].start_time_unix_nano > 0
        assert point(metrics, name, topic="orders") == 50
        assert point(metrics, "kafka_log_log_logendoffset", topic="orders", partition="0") == 50
        until(lambda: point(receiver.metrics(), "kafka_consumergroup_lag_sum", consumergroup="billing") == 30)

        summary = metrics["kafka_network_requestmetrics_totaltimems"].summary
        (of_produce,) = [each for each in summary.data_points if each.attributes[0].value.string_value == "Produce"]
        assert of_produce.count > 0
        assert {each.quantile for each in of_produce.quantile_values} >= {0.5, 0.99}
        histogram = metrics["pybroker_request_seconds"].histogram
        (of_produce,) = [each for each in histogram.data_points if each.attributes[0].value.string_value == "Produce"]
        assert sum(of_produce.bucket_counts) == of_produce.count > 0
        assert len(of_produce.bucket_counts) == len(of_produce.explicit_bounds) + 1

        attributes = receiver.resources()[0][0]
        assert attributes["service.instance.id"] == "1"
        assert attributes["deployment.environment.name"] == "tests"
        assert len(attributes["pybroker.cluster.id"]) == 22
        sent = receiver.headers[0]
        assert (sent["Authorization"], sent["X-Scope"]) == (f"Bearer {SECRET}", "one")

        waiting = confluent.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "waiting"})
        waiting.assign([confluent.TopicPartition("orders", 1, 0)])

        def both_were_slow() -> bool:
            waiting.poll(0.1)
            return {"JoinGroup", "Fetch"} <= {span.name for span in receiver.spans()}

        until(both_were_slow)
        waiting.close()
        spans = receiver.spans()
        for api, plane in (("JoinGroup", "control"), ("Fetch", "data")):
            whole = next(span for span in spans if span.name == api)
            found = {one.key: one.value for one in whole.attributes}
            assert found["pybroker.plane"].string_value == plane
            assert found["client.address"].string_value == "127.0.0.1"
            assert found["client.port"].int_value > 0
            assert whole.kind == Span.SPAN_KIND_SERVER
            parts = [span for span in spans if span.parent_span_id == whole.span_id]
            assert parts
            assert {part.trace_id for part in parts} == {whole.trace_id}
            lengths = [part.end_time_unix_nano - part.start_time_unix_nano for part in parts]
            assert sum(lengths) == whole.end_time_unix_nano - whole.start_time_unix_nano >= 50_000_000
        assert SECRET not in broker.log_tail(10_000)
    finally:
        broker.end()


def test_the_last_figures_go_out_at_a_stop(tmp_path: Path, receiver: Receiver) -> None:
    broker = started(tmp_path / "broker", receiver, otlp_interval_ms="3600000")
    try:
        create(broker, confluent.admin.NewTopic("orders", 1, 1))
        produce(broker, "orders", 7)
        assert receiver.metrics() == {}
        broker.stop()
    finally:
        broker.end()
    assert point(receiver.metrics(), "kafka_server_brokertopicmetrics_messagesin_total") == 7


@pytest.mark.parametrize("enabled", [True, False])
def test_what_clients_push_is_passed_on(tmp_path: Path, receiver: Receiver, enabled: bool) -> None:
    """librdkafka's own metrics, with the client's identity."""
    broker = started(tmp_path / "broker", receiver, otlp_client_metrics_enable=str(enabled).lower())
    try:
        assert alter(broker, "all", interval_ms="500", metrics="*") == (0, "")
        producer = confluent.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "pushes"})

        def of_client() -> list[dict[str, str]]:
            producer.produce("pushed", b"x")
            producer.poll(0.2)
            return [attributes for attributes, found in receiver.resources() if "client_id" in attributes and found]

        if enabled:
            until(of_client)
            (attributes, *_) = of_client()
            assert attributes["client_id"] == "pushes"
            assert attributes["client_source_address"] == "127.0.0.1"
            assert attributes["client_software_name"] in ("librdkafka", "confluent-kafka-python")
        else:
            name = "pybroker_client_telemetry_pushes_total"
            until(lambda: of_client() or point(receiver.metrics(), name))
            assert of_client() == []
        producer.flush(60)
    finally:
        broker.end()


def test_a_collector_that_is_busy_is_asked_again(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [503, 429]
    broker = started(tmp_path / "broker", receiver)
    try:
        until(receiver.metrics)
        assert "otlp.endpoint" not in broker.log_tail(10_000)
        receiver.statuses = [400]
        until(lambda: "error=HTTP status 400" in broker.log_tail(10_000))
    finally:
        broker.end()


def test_without_a_collector_a_broker_serves(tmp_path: Path) -> None:
    broker = PybrokerProcess(
        tmp_path, {"otlp.endpoint": f"http://127.0.0.1:{free_port()}", "otlp.interval.ms": "100"}
    )
    broker.start()
    try:
        until(lambda: "cannot export metrics otlp.endpoint=" in broker.log_tail(10_000))
        create(broker, confluent.admin.NewTopic("orders", 1, 1))
        produce(broker, "orders", 5)
        broker.stop()
    finally:
        broker.end()


@pytest.mark.parametrize(
    ("setting", "says"),
    [("otlp.endpoint=collector:4317", "http://host:port"), (f"otlp.headers={SECRET}", "name=value")],
)
def test_settings_that_cannot_be_obeyed(setting: str, says: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pybroker", "start", "--set", setting, "--set", f"log.dirs={tmp_path / 'data'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert SECRET not in done.stderr


def test_what_is_not_installed_is_said(tmp_path: Path) -> None:
    """A broker without the setting does not import the package."""
    hidden = "import sys; sys.modules['opentelemetry'] = None; sys.argv[0] = 'pybroker'; "
    run = "from pybroker.__main__ import main; main()"
    arguments = ["start", "--set", "otlp.endpoint=http://127.0.0.1:1", "--set", f"log.dirs={tmp_path / 'data'}"]
    done = subprocess.run(
        [sys.executable, "-c", hidden + run, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "otlp.endpoint needs the package opentelemetry.proto: pip install 'opentelemetry-proto>=" in done.stderr
