"""KIP-78 in the clients: which objects get the cluster id, when, and how often."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from pybroker.client import (
    AdminClient,
    ClientMetrics,
    ClusterResource,
    ClusterResourceListener,
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    Deserializer,
    KafkaError,
    MetricReporter,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    Serializer,
    TopicPartition,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.client.fake_broker import FakeBroker


class Listening(ClusterResourceListener):
    """A listener that records the updates."""

    def __init__(self) -> None:
        self.told: list[str | None] = []
        self.configured = 0
        self.closed = 0

    def on_update(self, cluster_resource: ClusterResource) -> None:
        self.told.append(cluster_resource.cluster_id)

    def configure(self, config: Mapping[str, Any], is_key: bool = False) -> None:
        assert "bootstrap.servers" in config
        assert not any("cluster" in name for name in config)
        assert self.told == []
        self.configured += 1

    def close(self) -> None:
        self.closed += 1


class Reporter(Listening, MetricReporter):
    def init(self, metrics: ClientMetrics) -> None:
        self.metrics = metrics


class Writes(Listening, Serializer):
    def serialize(self, topic: str, headers: object, value: Any) -> bytes | None:
        return f"{self.told[-1]}:{value}".encode()


class Reads(Listening, Deserializer):
    def deserialize(self, topic: str, headers: object, data: bytes | None) -> Any:
        return self.told[-1], data


class OnSend(Listening, ProducerInterceptor):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str | None] = []
        self.acknowledged: list[RecordMetadata | None] = []
        self.errors: list[Exception | None] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(self.told[-1] if self.told else None)
        return ProducerRecord(record.topic, record.value, "key", record.partition, record.timestamp, record.headers)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self.acknowledged.append(metadata)
        self.errors.append(error)


class OnConsume(Listening, ConsumerInterceptor):
    def __init__(self) -> None:
        super().__init__()
        self.committed: list[Mapping[TopicPartition, OffsetAndMetadata]] = []

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        assert self.told
        return [record for record in records if b"drop" not in record.value[1]]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.append(offsets)


class Plain(ProducerInterceptor):
    """A plug-in that implements only its own interface, and that incorrectly. It has a method with the name of the
    listener's."""

    told: ClassVar[list[ClusterResource]] = []

    def on_update(self, cluster_resource: ClusterResource) -> None:
        self.told.append(cluster_resource)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("a plug-in's bug")


@pytest.mark.checklist(257, 258, 259, 284, 286, 287, 288, 289, 292, 293, 297, 298, 300, 302, 303, 304, 309, "X28")
async def test_plugins_learn_the_cluster_id(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    cluster_id = (await admin.describe_cluster()).cluster_id
    reporter, key, value, interceptor = Reporter(), Writes(), Writes(), OnSend()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "metric.reporters": [reporter],
            "key.serializer": key,
            "value.serializer": value,
            "interceptor.classes": [interceptor, Plain],
        }
    )
    plugins: list[Listening] = [reporter, key, value, interceptor]
    assert [each.configured for each in plugins] == [1, 1, 1, 1]
    assert reporter.metrics.cluster_id is None
    await producer.start()
    await producer.send(name, "v")
    await producer.send(name, "drop")
    for each in plugins:
        assert set(each.told) == {cluster_id}
        assert len(each.told) >= 2  # after every metadata response
    assert Plain.told == []
    assert interceptor.sent[-1] == cluster_id
    assert [metadata.offset for metadata in interceptor.acknowledged if metadata] == [0, 1]
    assert reporter.metrics["record-send-total"] == 2
    assert reporter.metrics.tags()["cluster-id"] == cluster_id
    assert producer.cluster.id == cluster_id
    await producer.close()
    assert [each.closed for each in plugins] == [1, 1, 1, 1]

    reader, reads, intercepts = Reporter(), Reads(), OnConsume()
    config = {
        "bootstrap.servers": bootstrap,
        "metric.reporters": [reader],
        "value.deserializer": reads,
        "interceptor.classes": intercepts,
        "group.id": name,
        "auto.offset.reset": "earliest",
    }
    async with Consumer(config) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        record = await consumer.getone()
        assert record.value == (cluster_id, f"{cluster_id}:v".encode())
        assert record.key == f"{cluster_id}:key".encode()
        while await consumer.position(TopicPartition(name, 0)) < 2:
            assert await consumer.poll(1.0) == []  # dropped by the interceptor
        await consumer.commit()
        assert intercepts.committed[-1][TopicPartition(name, 0)].offset == 2
        assert consumer.metrics().cluster_id == cluster_id
    for plugin in (reader, reads, intercepts):
        assert set(plugin.told) == {cluster_id}
        assert len(plugin.told) >= 2


@pytest.mark.checklist(289)
async def test_an_interceptor_may_run_before_the_id_is_known(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    interceptor = OnSend()
    async with Producer({"bootstrap.servers": bootstrap, "interceptor.classes": interceptor}) as producer:
        await producer.send(name, "v")
        with pytest.raises(KafkaError):
            await producer.send("no/slash", "v")
    assert interceptor.sent[0] is None
    assert isinstance(interceptor.errors[-1], KafkaError)


@pytest.mark.checklist(291)
async def test_the_id_is_logged_when_it_is_new(caplog: pytest.LogCaptureFixture) -> None:
    ids: list[str | None] = ["one", "one", "two", None]
    listener = Reporter()
    async with (
        FakeBroker({"MetadataRequest": lambda *_: broker.metadata(cluster_id=ids.pop(0))}) as broker,
        AdminClient(
            {"bootstrap.servers": broker.bootstrap, "client.id": "me", "metric.reporters": [listener]}
        ) as admin,
    ):
        with caplog.at_level(logging.INFO, "pybroker.client"):
            for _ in range(4):
                await admin.describe_cluster()
        assert admin.cluster.id is None
    assert listener.told == ["one", "one", "two", None]
    logged = [record.getMessage() for record in caplog.records if "Cluster ID" in record.getMessage()]
    assert logged == ["[me] Cluster ID: one", "[me] Cluster ID: two", "[me] Cluster ID: None"]


@pytest.mark.checklist(285, 286)
def test_the_resource_and_its_listener() -> None:
    assert ClusterResource("abc").cluster_id == "abc"
    assert ClusterResource(None).cluster_id is None
    with pytest.raises(TypeError):
        ClusterResourceListener()  # type: ignore[abstract]  # abstract: must raise


@pytest.mark.checklist(307, 308, "D36")
async def test_a_misrouted_connection_starts_over() -> None:
    """The address of a node leads to another cluster: the client connects to its bootstrap servers again."""
    seen: list[tuple[str | None, int]] = []
    moved = False

    def versions(request: Any, version: int) -> Any:
        seen.append((request.cluster_id, request.node_id))
        # The address now belongs to another cluster, so a client of cluster "old" must fail.
        wrong = moved and request.cluster_id == "old"
        rows = [m.ApiVersionsResponse_ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in served]
        return m.ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED if wrong else 0, api_keys=rows)

    served = [(3, 12), (18, 5), (60, 0)]
    async with FakeBroker(
        {
            "ApiVersionsRequest": versions,
            "MetadataRequest": lambda *_: broker.metadata(cluster_id="new" if moved else "old"),
            "DescribeClusterRequest": lambda *_: ConnectionError() if not moved else m.DescribeClusterResponse(),
        },
        {3: (0, 12), 18: (0, 5), 60: (0, 0)},
    ) as broker:
        config = {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.ms": 1, "retry.backoff.ms": 1}
        async with AdminClient(config) as admin:
            assert (await admin.describe_cluster()).cluster_id == "old"
            for each in broker._writers:
                each.close()
            moved = True
            assert (await admin.describe_cluster()).cluster_id == "new"
    assert seen[0] == (None, -1)
    assert ("old", 1) in seen


@pytest.mark.checklist(266, 268)
@pytest.mark.parametrize(
    ("command", "code", "shown"),
    [
        (("cluster", "id"), 1, "Error: The cluster has no id: its brokers are older than Kafka 0.10.1.\n"),
        (("cluster", "describe"), 0, "Cluster id: (none)\n"),
        (("cluster", "describe", "--json"), 0, '"cluster_id": null,\n'),
        (("topics", "list"), 0, "orders"),
    ],
)
async def test_commands_work_with_a_broker_that_has_no_cluster_id(
    command: tuple[str, ...], code: int, shown: str
) -> None:
    """The broker's highest version of Metadata is 1, whose response has no field for the id."""
    topic = m.MetadataResponse_MetadataResponseTopic(name="orders", partitions=[])
    async with FakeBroker(
        {"MetadataRequest": lambda *_: broker.metadata(topics=(topic,))}, {3: (0, 1), 18: (0, 0)}
    ) as broker:
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pybroker", *command, "--bootstrap-server", broker.bootstrap,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(120):
            printed, complaints = await done.communicate()
        assert {version for request, version in broker.requests if isinstance(request, m.MetadataRequest)} == {1}
    assert done.returncode == code
    said, silent = (complaints, printed) if code else (printed, complaints)
    assert shown in said.decode()
    assert silent.strip() == b""
