"""Producer against pybroker and Apache Kafka."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pybroker import native
from pybroker.client import (
    AdminClient,
    ClientConfigError,
    Consumer,
    ConsumerRecord,
    JsonSerializer,
    KafkaError,
    KafkaTimeoutError,
    NewTopic,
    OffsetSpec,
    Producer,
    ProducerRecord,
    RecordMetadata,
    RecordTooLargeError,
    TopicPartition,
    TopicRecreatedError,
    Uuid,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.client.conftest import forgotten, known, recreate
from tests.client.fake_broker import FakeBroker


async def written(producer: Producer, topic: str, value: str) -> RecordMetadata:
    """Send records like `send`, whatever `linger.ms` is."""
    delivery = await producer.enqueue(topic, value)
    await producer.flush()
    return await delivery


async def read(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[ConsumerRecord]:
    """Read exactly `count` records from the start of a topic; fail if there are more."""
    found: list[ConsumerRecord] = []
    config = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 100}
    async with Consumer(config) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        async with asyncio.timeout(60):
            while len(found) < count:
                found += await consumer.poll(5.0)
        found += await consumer.poll(0.2)
    assert len(found) == count
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_sent_is_read(admin: AdminClient, bootstrap: str, name: str, compression: str) -> None:
    topic_id = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
    config = {"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 0}
    time_ms = int(time.time() * 1000) - 60_000
    async with Producer(config) as producer:
        first = await producer.send(name, "väl", key=b"k", headers={"a": "1", "b": None}, timestamp_ms=time_ms)
        second = await producer.send(ProducerRecord(name, b"x" * 100_000))
        tombstone = await producer.send(name, None, key="k")
    assert [each.offset for each in (first, second, tombstone)] == [0, 1, 2]
    assert (first.topic, first.partition, first.topic_id, first.timestamp) == (name, 0, topic_id, time_ms)
    records = await read(bootstrap, name, 3)
    assert [record.value for record in records] == ["väl".encode(), b"x" * 100_000, None]
    assert (records[0].key, records[0].headers) == (b"k", (("a", b"1"), ("b", None)))
    assert (records[0].timestamp, records[0].timestamp_type, records[0].topic_id) == (time_ms, 0, topic_id)


async def test_many_records_keep_their_order_and_come_once(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 3, 1)])
    rows = [(f"key-{index % 17}".encode(), str(index).encode()) for index in range(20_000)]
    async with Producer({"bootstrap.servers": bootstrap, "batch.size": 4_000, "compression.type": "lz4"}) as producer:
        await producer.send_many(name, rows)
        for index in range(20_000, 20_500):
            await producer.enqueue(name, str(index), key=f"key-{index % 17}")
        await producer.flush()
        assert producer.metrics()["record-send-total"] == 20_500
    records = await read(bootstrap, name, 20_500, 3)
    by_key: dict[bytes, list[int]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(int(record.value))
        assert record.partition == native.partition_of_key(record.key, 3)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert len({record.value for record in records}) == 20_500


async def test_rows_without_keys(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 2, 1)])
    async with Producer({"bootstrap.servers": bootstrap, "batch.size": 2_000}) as producer:
        await producer.send_many(name, [str(index).encode() for index in range(5_000)])
        await producer.send_many(name, [b"there"], partition=1)
        with pytest.raises(TypeError, match="must be bytes"):
            await producer.send_many(name, [1])
    assert len({record.value for record in await read(bootstrap, name, 5_001, 2)}) == 5_001


def test_partitions_are_those_of_java() -> None:
    # The values of murmur2 come from Kafka's own tests, made positive, modulo the number of partitions.
    for key, murmur in (("21", -973932308), ("foobar", -790332482), ("abc", 479470107)):
        assert native.partition_of_key(key.encode(), 1000) == (murmur & 0x7FFFFFFF) % 1000
    with pytest.raises(ValueError, match="at least one"):
        native.partition_of_key(b"", 0)


async def test_refusals_are_clear(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "2000"})])
    config = {"bootstrap.servers": bootstrap, "max.request.size": 200_000, "linger.ms": 60_000}
    async with Producer(config) as producer:
        with pytest.raises(RecordTooLargeError, match=r"max\.request\.size=200000"):
            await producer.send(name, b"x" * 200_000)
        large = await producer.enqueue(name, b"x" * 3_000)
        with pytest.raises(KafkaError) as refused:
            await producer.flush()
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError):
            await large
        # A batch that is too large is split until it fits; the sequence continues after the refusal.
        deliveries = [await producer.enqueue(name, bytes([48 + index]) * 900) for index in range(8)]
        await producer.flush()
        assert [(await each).offset for each in deliveries] == list(range(8))
        assert producer.metrics()["batch-split-total"] >= 3
        with pytest.raises(KafkaError) as partition:
            await producer.send(name, b"", partition=7)
        assert partition.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(TypeError, match=r"value\.serializer"):
            await producer.send(name, 1)
    async with Producer({"bootstrap.servers": bootstrap, "max.block.ms": 10_000}) as producer:
        with pytest.raises(KafkaError) as topic:
            await producer.send(f"{name}-never", b"")
        assert topic.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.checklist("D1")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_acks(admin: AdminClient, bootstrap: str, name: str, acks: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    async with Producer({"bootstrap.servers": bootstrap, "acks": acks}) as producer:
        metadata = await producer.send(name, acks)
        assert metadata.offset == (-1 if acks == "0" else 0)
    assert (await read(bootstrap, name, 1))[0].value == acks.encode()


@pytest.mark.checklist("D1", "D32")
async def test_what_was_meant_for_a_deleted_topic_does_not_reach_the_next(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    old = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000}) as producer:
        assert (await written(producer, name, "first")).topic_id == old
        waiting = await producer.enqueue(name, "for the old one")
        new = await recreate(admin, name)
        sending = asyncio.create_task(producer.flush())
        with pytest.raises(TopicRecreatedError) as refused:
            await waiting
        await sending
        assert (refused.value.old_topic_id, refused.value.new_topic_id) == (old, new)
        assert str(old) in str(refused.value)
        metadata = await written(producer, name, "for the new one")
        assert (metadata.topic_id, metadata.offset) == (new, 0)
    assert [record.value for record in await read(bootstrap, name, 1)] == [b"for the new one"]


async def test_a_producer_may_go_on_with_the_next_topic(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    config = {"bootstrap.servers": bootstrap, "linger.ms": 60_000, "on.topic.recreated": "continue"}
    async with Producer(config) as producer:
        await written(producer, name, "first")
        waiting = await producer.enqueue(name, "second")
        new = await recreate(admin, name)
        await producer.flush()
        assert (await waiting).topic_id == new
        assert (await written(producer, name, "third")).offset == 1


async def test_a_deleted_topic_ends_the_wait(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    await known(admin, name)
    async with Producer({"bootstrap.servers": bootstrap, "max.block.ms": 10_000}) as producer:
        await producer.send(name, "first")
        await admin.delete_topics([name])
        await forgotten(admin, name)
        with pytest.raises(KafkaError) as gone:
            await producer.send(name, "second")
        assert gone.value.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_flush_raises_what_nobody_looked_at(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "2000"})])
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        await producer.enqueue(name, b"x" * 3_000)
        with pytest.raises(KafkaError):
            await producer.flush()
        await producer.flush()


async def test_serializers(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    config = {"bootstrap.servers": bootstrap, "value.serializer": JsonSerializer, "key.serializer": "builtins:ascii"}
    async with Producer(config) as producer:
        await producer.send(name, {"a": [1, "ü"]}, key="é")
        await producer.send_many(name, [[1], (None, [2])])
    records = await read(bootstrap, name, 3)
    assert [record.value for record in records] == ['{"a":[1,"ü"]}'.encode(), b"[1]", b"[2]"]
    assert records[0].key == b"'\\xe9'"


TOPIC = Uuid.parse("b8tRS7h4TJ2Vt43Dp85v2A")


class ScriptedBroker(FakeBroker):
    """A broker with one partition. It answers each Produce by the script; when the script has ended, by the topic's
    id."""

    def __init__(self, *script: object) -> None:
        super().__init__(
            {
                "MetadataRequest": lambda *_: self.metadata(topics=(self.topic(),)),
                "InitProducerIdRequest": lambda *_: m.InitProducerIdResponse(producer_id=7, producer_epoch=0),
                "ProduceRequest": self.produce,
            },
            {0: (3, 13), 3: (0, 12), 18: (0, 4), 22: (0, 4)},
        )
        self.script = list(script)
        self.batches: list[tuple[int, int, int]] = []
        self.topic_id = TOPIC
        self.asked_for: list[Uuid] = []

    def topic(self) -> object:
        partition = m.MetadataResponse_MetadataResponsePartition(leader_id=1, leader_epoch=1, replica_nodes=[1])
        return m.MetadataResponse_MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=[partition])

    def produce(self, request: Any, _version: int) -> object:
        row = request.topic_data[0].partition_data[0]
        self.asked_for.append(request.topic_data[0].topic_id)
        epoch, sequence = int.from_bytes(row.records[51:53]), int.from_bytes(row.records[53:57])
        self.batches.append((epoch, sequence, int.from_bytes(row.records[57:61])))
        step: object = ErrorCode.NONE if self.asked_for[-1] == self.topic_id else ErrorCode.UNKNOWN_TOPIC_ID
        if self.script:
            step = self.script.pop(0)
        if isinstance(step, Exception):
            return step
        assert isinstance(step, int)
        answered = m.ProduceResponse_PartitionProduceResponse(error_code=step, base_offset=10)
        return m.ProduceResponse(
            responses=[
                m.ProduceResponse_TopicProduceResponse(topic_id=self.asked_for[-1], partition_responses=[answered])
            ]
        )


async def _sent(broker: ScriptedBroker, **config: object) -> list[object]:
    async with Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "retry.backoff.ms": 5, **config}
    ) as producer:
        results: list[object] = []
        for value in ("a", "b"):
            try:
                results.append((await producer.send("t", value)).offset)
            except (KafkaError, KafkaTimeoutError) as error:
                results.append(error)
        return results


async def test_a_lost_answer_is_asked_for_again_under_the_same_sequence() -> None:
    async with ScriptedBroker(ConnectionError(), ErrorCode.NOT_LEADER_OR_FOLLOWER) as broker:
        assert await _sent(broker) == [10, 10]
        assert broker.batches == [(0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 1, 1)]
    async with ScriptedBroker(ErrorCode.DUPLICATE_SEQUENCE_NUMBER) as broker:
        assert await _sent(broker) == [-1, 10]


async def test_a_gap_in_the_sequence_starts_a_new_epoch() -> None:
    async with ScriptedBroker(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) as broker:
        assert await _sent(broker) == [10, 10]
        assert broker.batches == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]
    async with ScriptedBroker(ErrorCode.INVALID_RECORD) as broker:
        failed, written = await _sent(broker)
        assert isinstance(failed, KafkaError)
        assert written == 10
        assert broker.batches == [(0, 0, 1), (1, 0, 1)]


async def test_nothing_overtakes_the_first_batch_of_a_producer_that_the_leader_does_not_know() -> None:
    """A new log of Apache Kafka accepts any first sequence (KAFKA-15591): it would also accept the second batch if that
    arrived first."""
    async with ScriptedBroker(ErrorCode.NOT_LEADER_OR_FOLLOWER) as broker:
        config = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "retry.backoff.ms": 5}
        async with Producer(config) as producer:
            # Each record is in its own batch, and both can be sent at once.
            sends = [await producer.enqueue("t", "b" * 100), await producer.enqueue("t", "c" * 300_000)]
            async with asyncio.timeout(60):
                await asyncio.gather(*sends)
        assert broker.batches == [(0, 0, 1), (0, 0, 1), (0, 1, 1)]


async def test_a_record_fails_after_its_time() -> None:
    async with ScriptedBroker(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000) as broker:
        first, _ = await _sent(broker, **{"delivery.timeout.ms": 200})
        assert isinstance(first, KafkaError | KafkaTimeoutError)
    async with ScriptedBroker(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000) as broker:
        first, _ = await _sent(broker, retries=1)
        assert isinstance(first, KafkaError)
        assert len(broker.batches) == 4


async def test_a_full_buffer_makes_the_caller_wait() -> None:
    async with ScriptedBroker() as broker:
        broker.answers["ProduceRequest"] = lambda *_: None
        config = {"bootstrap.servers": broker.bootstrap, "buffer.memory": 1000, "max.block.ms": 3_000}
        async with Producer(config) as producer:
            await producer.enqueue("t", b"x" * 800)
            with pytest.raises(KafkaTimeoutError, match=r"buffer\.memory=1000"):
                await producer.enqueue("t", b"x" * 800)
            async with asyncio.timeout(60):
                await producer.close(0.1)


async def test_deliveries_are_told_to_a_callback(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "2000"})])
    told: list[tuple[RecordMetadata | None, Exception | None]] = []
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        for value in (b"a", b"b"):
            await producer.enqueue(name, value, on_delivery=lambda *how: told.append(how))
        await producer.flush()
        await producer.enqueue(name, b"x" * 3_000, on_delivery=lambda *how: told.append(how))
        await producer.flush()  # the failure was reported
        metadata = await producer.send(name, "c", on_delivery=lambda *how: told.append(how))
    assert [written and written.offset for written, _ in told] == [0, 1, None, 2]
    assert [getattr(error, "code", None) for _, error in told] == [None, None, ErrorCode.MESSAGE_TOO_LARGE, None]
    assert told[-1][0] == metadata


async def test_times_may_be_datetimes(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"})])
    where = TopicPartition(name, 0)
    winter = datetime(2024, 1, 31, 12, 0, 0, 987_654, tzinfo=timezone(timedelta(hours=1)))
    winter_ms = 1_706_698_800_987
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        assert (await producer.send(name, "a", timestamp_ms=winter)).timestamp == winter_ms
        await producer.send(ProducerRecord(name, "b", timestamp=winter + timedelta(seconds=1)))
        await producer.send_many(name, [b"c"], timestamp_ms=winter + timedelta(seconds=2))
        with pytest.raises(ValueError, match="2024-01-31T12:00:00 has no time zone"):
            await producer.enqueue(name, "d", timestamp_ms=datetime(2024, 1, 31, 12))
    assert [each.timestamp - winter_ms for each in await read(bootstrap, name, 3)] == [0, 1_000, 2_000]
    async with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        found = await consumer.offsets_for_times({where: winter + timedelta(seconds=1)})
        second = found[where]
        assert second is not None
        assert second.offset == 1
    looked = await admin.list_offsets({where: OffsetSpec.for_timestamp(winter + timedelta(seconds=2))})
    assert looked[where].offset == 2


async def test_a_header_by_its_name(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        await producer.send(name, "a", headers=[("h", b"1"), ("h", "2"), ("none", None)])
    [record] = await read(bootstrap, name, 1)
    assert (record.header("h"), record.header("none", b"else"), record.header("x")) == (b"2", None, None)
    assert record.header("x", b"else") == b"else"


def test_transactions_are_for_another_producer() -> None:
    with pytest.raises(ClientConfigError, match=r"transactional\.id: use a TransactionalProducer"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t"})


async def test_who_waits_for_a_record_does_not_wait_for_more_of_them(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await admin.create_topics([NewTopic(name, 2, 1)])
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 600_000}) as producer, asyncio.timeout(60):
        for index in range(4):
            await producer.send(name, "a", partition=index % 2)
        await (await producer.enqueue(name, "a"))


async def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    async with ScriptedBroker() as broker:
        async with Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 600_000}) as producer:
            await producer.send("t", "a")
            broker.delay_s = 0.5
            sends = [asyncio.create_task(producer.send("t", "b"))]
            async with asyncio.timeout(60):
                while len(broker.batches) == 1:  # noqa: ASYNC110  # no event tells
                    await asyncio.sleep(0.001)
                sends += [asyncio.create_task(producer.send("t", "c")) for _ in range(20)]
                await asyncio.gather(*sends)
        assert [count for _, _, count in broker.batches] == [1, 1, 20]


@pytest.mark.checklist("D21", "D32")
@pytest.mark.parametrize("reaction", ["fail", "continue"])
async def test_late_answers_for_a_topic_that_is_gone(reaction: str) -> None:
    """Two requests are in flight when the topic changes: neither is sent again unchanged."""
    other = Uuid.parse("vPeOCWypqUOSepEvx0cbog")
    async with ScriptedBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "retry.backoff.ms": 5}
        async with Producer({**config, "on.topic.recreated": reaction}) as producer:
            await producer.send("t", "a")
            broker.topic_id = other
            # Each record is in its own batch: the second is in flight before the first is answered.
            waiting = [await producer.enqueue("t", "b" * 100), await producer.enqueue("t", "c" * 300_000)]
            async with asyncio.timeout(60):
                outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            if reaction == "fail":
                assert [type(each) for each in outcomes] == [TopicRecreatedError] * 2
            else:
                assert [each.topic_id for each in outcomes if not isinstance(each, BaseException)] == [other] * 2
            assert (await producer.send("t", "d")).topic_id == other
        first_for_other = broker.asked_for.index(other)
        assert TOPIC not in broker.asked_for[first_for_other:]
        # sequences begin again: a new log accepts no other first sequence
        assert broker.batches[first_for_other][1] == 0
