"""Metrics that clients push (KIP-714): subscriptions by request and by Kafka's tool; librdkafka and Java push; hostile
pushes cost little."""

from __future__ import annotations

import gzip
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from pybroker.broker.client_metrics.client_instances import NAMES_MAX, read
from pybroker.broker.client_metrics.otlp_reader import MalformedError
from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.kafka_tools import ToolError, run_tool, tool_running
from tests.wire.client import WireClient

CLIENT_METRICS, SET, DELETE = 16, 0, 1
NONE, GZIP, ZSTD = 0, 1, 4


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("telemetry")
    broker = PybrokerProcess(folder, {"metrics.listener": f"127.0.0.1:{free_port()}", "telemetry.max.bytes": "10000"})
    broker.start()
    yield broker
    broker.end()


def metrics(broker: BrokerProcess) -> dict[str, float]:
    """Return the clients' metrics, by name and labels."""
    with urllib.request.urlopen(f"http://{broker.settings['metrics.listener']}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("pybroker_client_")]
    return {name: float(value) for name, _, value in lines}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def alter(broker: BrokerProcess, name: str, **settings: str | None) -> tuple[int, str]:
    """Change settings; return error code and message. None removes a setting."""
    request = m.IncrementalAlterConfigsRequest(
        resources=[
            m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name=name,
                configs=[
                    m.IncrementalAlterConfigsRequest_AlterableConfig(
                        name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value
                    )
                    for key, value in settings.items()
                ],
            )
        ]
    )
    with WireClient(broker.port) as wire:
        (answer,) = wire.call(request, 1).responses
    return answer.error_code, answer.error_message or ""


def shown(broker: BrokerProcess, name: str) -> dict[str, tuple[str, int]]:
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None
    )
    with WireClient(broker.port) as wire:
        (answer,) = wire.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    assert answer.error_code == 0
    return {one.name: (one.value, one.config_source) for one in answer.configs}


def listed(broker: BrokerProcess) -> list[str]:
    with WireClient(broker.port) as wire:
        answer = wire.call(m.ListConfigResourcesRequest(), 0)
    return [one.resource_name for one in answer.config_resources]


def field(number: int, data: bytes) -> bytes:
    size, length = len(data), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def otlp(name: str, value: float, *, is_sum: bool = True) -> bytes:
    """Return MetricsData with one point."""
    point = bytes([4 << 3 | 1]) + struct.pack("<d", value)
    metric = field(1, name.encode()) + field(7 if is_sum else 5, field(1, point) + b"\x10\x01")
    return field(1, field(2, field(2, metric)))


def create(broker: BrokerProcess, topic: str) -> None:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, 1)]).all()


class Instance:
    """A client that requests its subscription."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.wire = WireClient(broker.port)
        self.told = self.get(Uuid.ZERO)
        self.id = self.told.client_instance_id

    def get(self, instance_id: Uuid) -> Any:
        return self.wire.call(m.GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)

    def push(self, data: bytes, codec: int = NONE, **other: Any) -> int:
        fields = {"client_instance_id": self.id, "subscription_id": self.told.subscription_id, **other}
        return int(
            self.wire.call(m.PushTelemetryRequest(compression_type=codec, metrics=data, **fields), 0).error_code
        )


def test_subscriptions_are_kept_shown_and_taken_back(broker: BrokerProcess) -> None:
    defaults = {"interval.ms": ("300000", 5), "match": ("", 5), "metrics": ("", 5)}
    assert shown(broker, "one") == defaults
    assert alter(broker, "one", metrics="org.apache.kafka.producer.", interval_ms="2000") == (0, "")
    assert alter(broker, "one", match="client_id=a.*,client_software_name=.*") == (0, "")
    expected = {
        "interval.ms": ("2000", 7),
        "match": ("client_id=a.*,client_software_name=.*", 7),
        "metrics": ("org.apache.kafka.producer.", 7),
    }
    assert shown(broker, "one") == expected
    broker.kill()
    broker.start()
    assert shown(broker, "one") == expected
    assert listed(broker) == ["one"]
    assert alter(broker, "one", metrics=None, interval_ms=None, match=None) == (0, "")
    assert listed(broker) == []
    assert shown(broker, "one") == defaults


def test_what_no_subscription_may_have_is_refused(broker: BrokerProcess) -> None:
    assert alter(broker, "", metrics="*")[0] == ErrorCode.INVALID_REQUEST
    for interval in ("99", "3600001"):
        assert alter(broker, "one", interval_ms=interval)[0] == ErrorCode.INVALID_REQUEST
    assert alter(broker, "one", interval_ms="soon")[0] == ErrorCode.INVALID_CONFIG
    assert alter(broker, "one", retention_ms="1") == (
        ErrorCode.INVALID_REQUEST,
        "Unknown client metrics configuration: retention.ms",
    )
    for pattern in ("client=a", "client_id", "client_id=(", "client_id=a=b"):
        assert alter(broker, "one", match=pattern) == (
            ErrorCode.INVALID_CONFIG,
            f"Illegal client matching pattern: {pattern}",
        )
    assert listed(broker) == []


def test_who_matches_is_asked(broker: BrokerProcess) -> None:
    nobody = Instance(broker)
    assert (nobody.told.requested_metrics, nobody.told.push_interval_ms) == ([], 300_000)
    assert (nobody.told.telemetry_max_bytes, nobody.told.delta_temporality) == (10_000, True)
    assert nobody.told.accepted_compression_types == [4, 3, 1, 2]
    alter(broker, "slow", metrics="a.", interval_ms="9000")
    alter(broker, "quick", metrics="b.,a.", interval_ms="4000", match="client_source_address=127[.]0[.]0[.]1")
    alter(broker, "others", metrics="*", interval_ms="100", match="client_id=somebody else")
    told = nobody.get(nobody.id)
    assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (0, ["a.", "b."], 4_000)
    assert told.subscription_id != nobody.told.subscription_id
    assert nobody.get(nobody.id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    alter(broker, "all", metrics="*")
    assert nobody.get(nobody.id).requested_metrics == ["*"]


def test_pushes_are_taken_and_refused_as_by_kafka(broker: BrokerProcess) -> None:
    alter(broker, "all", metrics="org.", interval_ms="3600000")
    one = Instance(broker)
    assert one.push(gzip.compress(otlp("org.sent", 5)), GZIP) == 0
    assert one.push(otlp("org.sent", 1)) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert one.push(otlp("org.sent", 2), terminating=True) == 0
    assert one.push(b"", terminating=True) == ErrorCode.INVALID_REQUEST
    assert Instance(broker).push(otlp("org.level", -3, is_sum=False)) == 0
    assert Instance(broker).push(otlp("net.unasked", 1)) == 0
    assert Instance(broker).push(b"", client_instance_id=Uuid.ZERO) == ErrorCode.INVALID_REQUEST
    assert Instance(broker).push(b"", 5) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert Instance(broker).push(bytes(10_001)) == ErrorCode.TELEMETRY_TOO_LARGE
    stranger = Instance(broker)
    assert stranger.push(b"", subscription_id=1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert stranger.get(stranger.id).error_code == 0, "it was told to ask"
    seen = metrics(broker)
    assert seen['pybroker_client_metric_sum_total{metric="org.sent"}'] == 7
    assert seen['pybroker_client_metric_gauge{metric="org.level"}'] == -3
    assert seen["pybroker_client_telemetry_unshown_total"] == 1
    assert seen["pybroker_client_telemetry_pushes_total"] == 4
    assert seen["pybroker_client_telemetry_instances"] == 7
    assert seen['pybroker_client_telemetry_refused_total{error="TELEMETRY_TOO_LARGE"}'] == 1
    assert not any("net.unasked" in name for name in seen)


def zstd_of(byte: int, blocks: int) -> bytes:
    """Return a frame that repeats a byte: each block of four bytes decompresses to 128 KiB."""
    headers = [(128 << 10) << 3 | 1 << 1 | (at == blocks - 1) for at in range(blocks)]
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(struct.pack("<I", one)[:3] + bytes([byte]) for one in headers)


TINY_BOMB = zstd_of(0x08, 4)


def test_what_a_push_may_cost_goes_by_its_size() -> None:
    with pytest.raises(ValueError, match="bytes"):
        read(ZSTD, TINY_BOMB, 4 << 20)
    with pytest.raises(MalformedError, match=r"more than \d{4} fields"):
        read(GZIP, gzip.compress(b"\x08\x08" * 30_000), 4 << 20)
    with pytest.raises(MalformedError, match="number 0"):
        read(NONE, bytes(2), 4 << 20)
    honest = b"".join(otlp(f"org.apache.kafka.producer.node.request.{number}", number) for number in range(1_000))
    assert len(read(GZIP, gzip.compress(honest), 4 << 20)[1]) == 1_000


def test_hostile_pushes(broker: BrokerProcess) -> None:
    """The pushes: a decompression bomb, a flood of fields or of names, and bytes that are not protobuf. The result is
    an error or a limited number of series."""
    alter(broker, "all", metrics="*")
    bomb = gzip.compress(bytes(9_000_000))
    assert len(bomb) < 10_000
    flood = gzip.compress(b"\x18\x00" * 1_000_000)
    for data in (bomb, flood, b"not gzip"):
        assert Instance(broker).push(data, GZIP) == ErrorCode.INVALID_RECORD
    assert len(TINY_BOMB) == 22
    assert Instance(broker).push(TINY_BOMB, ZSTD) == ErrorCode.INVALID_RECORD
    cut = field(1, field(2, field(2, field(1, b"\xff") + field(5, b"\x20"))))
    for data in (b"\x0a\xff", b"\xff" * 20, b"\x0f", cut):
        assert Instance(broker).push(data) == ErrorCode.INVALID_RECORD
    names = gzip.compress(b"".join(otlp(f"m{number}", 1) for number in range(NAMES_MAX + 100)))
    assert Instance(broker).push(names, GZIP) == 0
    assert Instance(broker).push(otlp('x"} 1\nforged', 1)) == 0
    assert Instance(broker).push(otlp("m1", float("inf")) + otlp("m2", float("nan"))) == 0
    seen = metrics(broker)
    assert sum(name.startswith("pybroker_client_metric_") for name in seen) == NAMES_MAX
    assert seen["pybroker_client_telemetry_unshown_total"] == 100
    assert seen['pybroker_client_metric_sum_total{metric="m1"}'] == 1


def test_librdkafka_pushes(broker: BrokerProcess) -> None:
    alter(broker, "all", metrics="*", interval_ms="200", match="client_software_name=confluent-kafka-python")
    create(broker, "pushed")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.metrics.push": True})
    producer.produce("pushed", b"value")
    assert producer.flush(60) == 0
    until(lambda: any(name.startswith('pybroker_client_metric_sum_total{metric="org') for name in metrics(broker)))
    assert metrics(broker)["pybroker_client_telemetry_instances"] >= 1


def test_java_pushes_and_kafkas_tools_subscribe(broker: BrokerProcess) -> None:
    at = ["--bootstrap-server", broker.bootstrap]
    wanted = ["--metrics", "org.apache.kafka.consumer.", "--interval", "500"]
    wanted += ["--match", "client_software_name=apache-kafka-java"]
    run_tool(
        "kafka-client-metrics",
        [*at, "--alter", "--name", "java", *wanted],
    )
    assert run_tool("kafka-client-metrics", [*at, "--list"]).strip() == "java"
    assert "interval.ms=500" in run_tool("kafka-client-metrics", [*at, "--describe", "--name", "java"])
    configs = ["--entity-type", "client-metrics", "--entity-name", "java"]
    run_tool("kafka-configs", [*at, "--alter", *configs, "--add-config", "interval.ms=600"])
    assert "interval.ms=600" in run_tool("kafka-configs", [*at, "--describe", *configs])
    with pytest.raises(ToolError, match="Illegal client matching pattern"):
        run_tool("kafka-configs", [*at, "--alter", *configs, "--add-config", "match=client_id"])
    create(broker, "read")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("read", b"value")
    assert producer.flush(60) == 0
    with tool_running("kafka-console-consumer", [*at, "--topic", "read", "--from-beginning"]):
        until(lambda: any('{metric="org.apache.kafka.consumer.' in name for name in metrics(broker)))
    run_tool("kafka-client-metrics", [*at, "--delete", "--name", "java"])
    assert run_tool("kafka-client-metrics", [*at, "--list"]).strip() == ""
