"""`Producer`: records into topics, each exactly once, in order, into the topic that they were meant for."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pybroker.client.cluster import PartitionInfo
from pybroker.client.config import PRODUCER, ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.life import LivingClient
from pybroker.client.connection.network import LOST, Network
from pybroker.client.connection.patience import Patience
from pybroker.client.errors import (
    ClientConfigError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    UnknownTopicError,
    broker_error,
)
from pybroker.client.plugins.interceptors import each
from pybroker.client.plugins.metrics import PRODUCER_METRICS
from pybroker.client.plugins.serialization import configured, plain_bytes, serialize_with
from pybroker.client.producer.accumulator import RECORD_BYTES, Batch, PartitionQueue, TopicQueues
from pybroker.client.producer.delivery import Delivery
from pybroker.client.producer.sender import Sender
from pybroker.client.records import ProducerRecord, RecordMetadata, header_list
from pybroker.native import ClientBatch, append_partitioned, partition_of_key
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_LEVELS = {"gzip": "compression.gzip.level", "lz4": "compression.lz4.level", "zstd": "compression.zstd.level"}


class Producer(LivingClient):
    """Writes records, asynchronously; `pybroker.client.blocking.Producer` is the same without asyncio.

        async with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
            metadata = await producer.send("words", "hello")        # waits until it is written
            for word in words:
                await producer.enqueue("words", word)               # waits only for room in the buffer
            await producer.flush()                                  # all of them are written

    Idempotent by default: what is sent again by itself is written once, in order. A record belongs to the incarnation
    of the topic that existed when it was given: if the topic is deleted and created again before it is written, it
    fails with TopicRecreatedError (`on.topic.recreated=continue`: it is written to the new one).

    config: settings under Kafka's names; unknown ones raise ClientConfigError. Use it from one event loop.
    """

    _kind = "producer"

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(ClientConfig(PRODUCER, config), PRODUCER_METRICS)
        _check(self._config)
        self._interceptors = self._config.plugins("interceptor.classes")
        self._reporters = self._config.plugins("metric.reporters")
        key, value = self._config.plugin("key.serializer"), self._config.plugin("value.serializer")
        self._serialize_key, self._serialize_value = serialize_with(key), serialize_with(value)
        self._plugins = configured(self._config.originals(), [*self._interceptors, *self._reporters], key, value)
        # Nothing stands between the caller's bytes and the batch.
        self._plain = not (self._interceptors or self._serialize_key or self._serialize_value)
        self._compression: str = self._config["compression.type"]
        level = self._config[_LEVELS[self._compression]] if self._compression in _LEVELS else None
        self._level = None if level in (None, -1) else level
        self._batch_bytes: int = max(1, self._config["batch.size"])
        self._linger_s = self._config.seconds("linger.ms")
        self._delivery_s = self._config.seconds("delivery.timeout.ms")
        self._block_s = self._config.seconds("max.block.ms")
        self._record_bytes_max: int = self._config["max.request.size"]
        self._buffer_bytes: int = self._config["buffer.memory"]
        self._sender: Sender | None = None
        self._topics: dict[str, TopicQueues] = {}
        for reporter in self._reporters:
            reporter.init(self._metrics)

    # Sending ------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> RecordMetadata:
        """Writes a record and waits until the broker has it.

        Raises KafkaError (TopicRecreatedError, RecordTooLargeError, …), KafkaTimeoutError after
        `delivery.timeout.ms`, TypeError for what cannot become bytes.
        """
        return await (
            await self.enqueue(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        )

    async def enqueue(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Delivery:
        """Hands a record over and waits for nothing but room (`buffer.memory`); await the Delivery for its metadata.

        A failure that nobody looks at is raised by the next `flush`. Raises KafkaTimeoutError after `max.block.ms`.
        """
        if self._plain and not headers and type(value) is bytes and (key is None or type(key) is bytes):
            delivery = self._append_now(topic, value, key, partition, timestamp_ms)
            if delivery is not None:
                return delivery
        if isinstance(topic, ProducerRecord) or self._interceptors:
            if not isinstance(topic, ProducerRecord):
                topic = ProducerRecord(topic, value, key, partition, timestamp_ms, header_list(headers))
            record = each(self._interceptors, "on_send", topic, lambda plugin, record: plugin.on_send(record))
            topic, value, key, partition = record.topic, record.value, record.key, record.partition
            timestamp_ms, headers = record.timestamp, record.headers
        try:
            return await self._enqueue(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except Exception as error:
            self._acknowledge(None, error)
            raise

    def _append_now(
        self, topic: str | ProducerRecord, value: bytes, key: bytes | None, partition: int | None, timestamp: int | None
    ) -> Delivery | None:
        """The short way: into a batch that is open and has room; None if it takes more than that."""
        queues, sender = self._topics.get(topic), self._sender  # type: ignore[arg-type]  # a record is no key
        if queues is None or sender is None or self._closed:
            return None
        size = len(value) + (len(key) if key is not None else 0) + RECORD_BYTES
        outcomes = sender.outcomes
        if size > self._record_bytes_max or outcomes.buffered + size > self._buffer_bytes:
            return None
        partitions = queues.partitions
        if partition is None:
            partition = queues.sticky if key is None else partition_of_key(key, len(partitions))
        elif not 0 <= partition < len(partitions):
            return None
        queue = partitions[partition].queue
        if not queue or queue[-1].closed:
            return None
        batch = queue[-1]
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        data = batch.data
        if not data.append(timestamp, key, value):
            return None
        batch.bytes += size
        outcomes.buffered += size
        return Delivery(batch, len(data) - 1, timestamp)

    async def _enqueue(
        self, topic: str, value: Any, key: Any, *, partition: int | None, timestamp_ms: int | None, headers: Any
    ) -> Delivery:
        head = header_list(headers) if headers else ()
        serialize = self._serialize_key
        key = plain_bytes(key) if serialize is None else serialize(topic, head, key)
        serialize = self._serialize_value
        value = plain_bytes(value) if serialize is None else serialize(topic, head, value)
        size = (len(key) if key else 0) + (len(value) if value else 0) + RECORD_BYTES
        if size > self._record_bytes_max:
            raise RecordTooLargeError(f"a record of {size} bytes exceeds max.request.size={self._record_bytes_max}")
        sender = await self._started()
        queues = self._topics.get(topic) or await self._look_up(topic)
        if sender.outcomes.buffered + size > self._buffer_bytes:
            await self._wait_for_room(sender, size)
            queues = self._topics.get(topic) or await self._look_up(topic)
        if partition is None:
            partition = queues.sticky if key is None else partition_of_key(key, len(queues.partitions))
        elif not 0 <= partition < len(queues.partitions):
            queues = await self._look_up(topic)
            if not 0 <= partition < len(queues.partitions):
                raise broker_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} has partitions 0 to {len(queues.partitions) - 1}, not {partition}",
                )
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        where = queues.partitions[partition]
        queue = where.queue
        if queue and not queue[-1].closed:
            batch = queue[-1]
            if batch.data.append(timestamp_ms, key, value, head or None):
                sender.took(batch, size)
                return Delivery(batch, len(batch.data) - 1, timestamp_ms)
            self._close(queues, batch)
        batch = self._new_batch(where)
        try:
            batch.data.append(timestamp_ms, key, value, head or None)
        except BaseException:
            queue.remove(batch)  # nothing is in it: nobody would ever send it
            raise
        sender.took(batch, size)
        if len(queue) > 1:
            # A tight loop of sends must let the sender have its turn when there is something to send.
            await asyncio.sleep(0)
        return Delivery(batch, 0, timestamp_ms)

    async def send_many(
        self,
        topic: str,
        records: Sequence[Any],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Hands many records over: each a value, or (key, value). The fast way for rows: nothing is done per record
        in Python unless there are serializers or interceptors.

        Waits for room only; `flush` waits until they are written and raises the first failure. What is a tuple is a
        (key, value). The order within a partition is the order given.
        """
        if not self._plain:
            for record in records:
                key, value = record if isinstance(record, tuple) else (None, record)
                await self.enqueue(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms)
            return
        rows = records if isinstance(records, list) else list(records)
        sender = await self._started()
        done = 0
        while done < len(rows):
            queues = self._topics.get(topic) or await self._look_up(topic)
            if sender.outcomes.buffered >= self._buffer_bytes:
                await self._wait_for_room(sender, 1)
                continue
            now = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
            if partition is not None and not 0 <= partition < len(queues.partitions):
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
            keyed = partition is None and isinstance(rows[done], tuple)
            if keyed:
                done, full = self._append_keyed(sender, queues, rows, done, now)
            else:
                where = queues.partitions[queues.sticky if partition is None else partition]
                batch = self._open_batch(where)
                before = batch.data.size_bytes
                try:
                    done = batch.data.append_many(rows, done, now)
                finally:
                    self._account(sender, batch, before)
                    if not len(batch.data):
                        where.queue.remove(batch)
                full = -1 if done == len(rows) else where.where.partition
            if full >= 0:
                self._close(queues, queues.partitions[full].queue[-1])
                await asyncio.sleep(0)

    def _append_keyed(
        self, sender: Sender, queues: TopicQueues, rows: list[Any], done: int, now: int
    ) -> tuple[int, int]:
        batches = [self._open_batch(where) for where in queues.partitions]
        before = [batch.data.size_bytes for batch in batches]
        try:
            return append_partitioned([batch.data for batch in batches], rows, done, now, queues.sticky)
        finally:
            for where, batch, size in zip(queues.partitions, batches, before, strict=True):
                self._account(sender, batch, size)
                if not len(batch.data):
                    where.queue.remove(batch)

    def _account(self, sender: Sender, batch: Batch, before: int) -> None:
        sender.took(batch, batch.data.size_bytes - before)

    def _open_batch(self, where: PartitionQueue) -> Batch:
        if where.queue and not where.queue[-1].closed:
            return where.queue[-1]
        return self._new_batch(where)

    def _new_batch(self, where: PartitionQueue) -> Batch:
        sender = self._sender
        assert sender is not None, "started before anything is queued"
        if self._closed:
            raise RuntimeError("the producer is closed")
        now = sender.loop.time()
        batch = Batch(
            ClientBatch(self._compression, self._batch_bytes, self._level),
            where.where,
            where.topic.topic_id,
            linger_end=now + self._linger_s,
            deadline=now + self._delivery_s,
            wake=sender.wake,
        )
        where.queue.append(batch)
        sender.has_work(where)
        return batch

    def _close(self, queues: TopicQueues, batch: Batch) -> None:
        """No more records for this batch; records without a key go to another partition now (KIP-480)."""
        batch.closed = True
        count = len(queues.partitions)
        if count > 1 and batch.partition == queues.sticky:
            queues.sticky = (queues.sticky + random.randrange(1, count)) % count
        if self._sender is not None:
            self._sender.wake()

    async def _wait_for_room(self, sender: Sender, size: int) -> None:
        try:
            async with asyncio.timeout(self._block_s):
                await sender.room(self._buffer_bytes, size)
        except TimeoutError:
            raise KafkaTimeoutError(
                f"buffer.memory={self._buffer_bytes} was full for max.block.ms={self._block_s * 1000:.0f}"
            ) from None

    # Looking around -----------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions."""
        await self._start()
        await self._look_up(topic)
        return self.cluster.partitions(topic)

    # Life ---------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Sends what waits, and returns when it is written. Raises the first failure that nobody has looked at."""
        if self._sender is not None:
            await self._sender.flush()

    async def close(self, timeout_s: float | None = None) -> None:
        """Has written what was handed over, then closes all connections.

        timeout_s: the longest that may take; what is left then fails. None: as long as a broker answers, 5 seconds of
        silence at most; then it raises KafkaTimeoutError if records are left that nobody else hears of. `flush` waits
        for `delivery.timeout.ms`.
        """
        await super().close(timeout_s)

    def _is_started(self) -> bool:
        return self._sender is not None

    def _begin(self, network: Network) -> None:
        self._sender = Sender(self._config, network, self._topics, self._metrics, self._batch_done)

    async def _finish(self, patience: Patience) -> None:
        sender, network = self._sender, self._network
        if sender is None or network is None:
            return
        try:
            in_time = await patience.wait_for(sender.flush())
        except (*LOST, KafkaError) as error:
            if not self._interrupted:
                raise
            log.warning("[%s] A record was not written: %s", self._config["client.id"], error)
            return
        if in_time:
            return
        count = sender.abandon(network.overdue("the producer was closed before the record was written"))
        self._gave_up(network, f"The producer was closed before {count} records were written")
        if patience.by_silence and not self._interrupted:
            sender.raise_unseen()

    async def _stop(self) -> None:
        if self._sender is not None:
            await self._sender.close()

    async def _started(self) -> Sender:
        """The sender, as long as there is one that sends."""
        if self._sender is None or self._closed:
            await self._start()
        assert self._sender is not None, "_start has it made or raises"
        return self._sender

    async def _look_up(self, topic: str) -> TopicQueues:
        """The queues of a topic, which may have to be looked for, or created by the broker."""
        network, sender = self._network, self._sender
        assert network is not None, "started"
        assert sender is not None, "started"
        backoff = Backoff(self._config.seconds("retry.backoff.ms"), self._config.seconds("retry.backoff.max.ms"))
        failure: Exception | None = None
        try:
            async with asyncio.timeout(self._block_s) as scope:
                while True:
                    try:
                        cluster = await network.refresh((topic,), create=True)
                    except LOST as error:
                        failure = error
                    else:
                        found = cluster.by_name.get(topic)
                        code = found.error_code if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        if found is not None and not code and found.partitions:
                            return sender.queues(found)
                        refused = broker_error(code or ErrorCode.LEADER_NOT_AVAILABLE, about=f"topic {topic}")
                        if not refused.retriable:
                            raise refused
                        if failure is None and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                            name = self._config["client.id"]
                            log.warning("[%s] topic %s does not exist; waiting for it", name, topic)
                        failure = refused
                    await asyncio.sleep(backoff.next())
        except TimeoutError:
            if not scope.expired():
                raise
        limit = f"max.block.ms={self._block_s * 1000:.0f}"
        if isinstance(failure, KafkaError) and failure.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(failure.code, f"topic {topic} does not exist after {limit}")
        raise network.overdue(f"topic {topic} is not known after {limit}", failure)

    def _batch_done(self, batch: Batch, error: Exception | None) -> None:
        """Tells interceptors how each record of a batch went."""
        if self._interceptors:
            for index in range(len(batch)):
                self._acknowledge(None if error is not None else Delivery(batch, index, -1).peek(), error)

    def _acknowledge(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        each(
            self._interceptors,
            "on_acknowledgement",
            metadata,
            lambda plugin, metadata: plugin.on_acknowledgement(metadata, error),
        )


def _check(config: ClientConfig) -> None:
    """Settings that contradict each other. Raises ClientConfigError."""
    if not config["enable.idempotence"]:
        return
    if config["acks"] != -1:
        if "enable.idempotence" in config:
            raise ClientConfigError("enable.idempotence=true needs acks=all")
        return
    if config["max.in.flight.requests.per.connection"] > 5:
        raise ClientConfigError("enable.idempotence=true needs max.in.flight.requests.per.connection of at most 5")
