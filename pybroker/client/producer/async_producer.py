"""`Producer`: writes records to topics, exactly once, in order, and only to the intended incarnation of a topic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pybroker.client.client_errors import (
    ClientConfigError,
    KafkaError,
    RecordTooLargeError,
    UnknownTopicError,
    broker_error,
)
from pybroker.client.cluster_metadata import PartitionInfo, TopicPartition
from pybroker.client.config import PRODUCER, ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.client_lifecycle import ClientLifecycle
from pybroker.client.connection.close_timeout import CloseTimeout
from pybroker.client.connection.network import LOST, Network
from pybroker.client.offset_types import Moment
from pybroker.client.plugins.client_metrics import PRODUCER_METRICS
from pybroker.client.plugins.interceptors import each
from pybroker.client.plugins.serialization import configured, plain_bytes, serialize_with
from pybroker.client.producer.accumulator import RECORD_BYTES, Batch, TopicQueues
from pybroker.client.producer.appender import AppendedValues, Appender
from pybroker.client.producer.batch_sender import BatchSender
from pybroker.client.producer.delivery import Delivery, OnDelivery
from pybroker.client.producer.producer_transaction import Transaction
from pybroker.client.producer.wait_warning import AFTER_S as WARN_AFTER_S
from pybroker.client.producer_records import HeaderList, Headers, ProducerRecord, RecordMetadata, header_list
from pybroker.native import partition_of_key
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Producer(ClientLifecycle):
    """Writes records, asynchronously; `pybroker.client.blocking.Producer` has the same calls without asyncio.

        async with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
            metadata = await producer.send("words", "hello")        # waits for the acknowledgement
            for word in words:
                await producer.enqueue("words", word)               # waits only for buffer space
            await producer.flush()                                  # waits for all acknowledgements

    Idempotent by default: even if records are sent again, each is written once, and in order. A record belongs to the
    incarnation of the topic that existed when the caller handed the record over. If the topic is deleted and created
    again before the record is written, the record fails with TopicRecreatedError (`on.topic.recreated=continue`: it is
    written to the new topic).

    config: settings under Kafka's names; an unknown name raises ClientConfigError. Use it from one event loop.
    """

    _kind = "producer"

    _settings = PRODUCER

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(ClientConfig(self._settings, config), PRODUCER_METRICS)
        _check(self._config)
        self._interceptors = self._config.plugins("interceptor.classes")
        self._reporters = self._config.plugins("metric.reporters")
        key, value = self._config.plugin("key.serializer"), self._config.plugin("value.serializer")
        self._serialize_key, self._serialize_value = serialize_with(key), serialize_with(value)
        self._plugins = configured(self._config.originals(), [*self._interceptors, *self._reporters], key, value)
        # Bytes go into the batch without conversion.
        self.is_plain = not (self._interceptors or self._serialize_key or self._serialize_value)
        self._block_s = self._config.seconds("max.block.ms")
        self._record_bytes_max: int = self._config["max.request.size"]
        self._buffer_bytes: int = self._config["buffer.memory"]
        self._sender: BatchSender | None = None
        self._appender: Appender | None = None
        self._topics: dict[str, TopicQueues] = {}
        self._looking: dict[str, asyncio.Task[TopicQueues]] = {}
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
        timestamp_ms: Moment | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordMetadata:
        """Write a record and wait for the acknowledgement.

        timestamp_ms: milliseconds since 1970 or a datetime; None = now. on_delivery: as in `enqueue`. Raises KafkaError
        (TopicRecreatedError, RecordTooLargeError, UnknownTopicError, …), KafkaTimeoutError after `delivery.timeout.ms`
        or `max.block.ms`, TypeError for values that cannot become bytes.
        """
        return await (
            await self.enqueue(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
                on_delivery=on_delivery,
            )
        )

    async def enqueue(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: Moment | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Buffer a record, waiting only for buffer space (`buffer.memory`). To get the record's metadata, await the
        returned Delivery.

        on_delivery: called on the loop with (metadata, None) or (None, error). If neither the Delivery nor a callback
        has delivered a failure, the next `flush` raises it. Raises UnknownTopicError if the topic does not appear
        within `max.block.ms`, or KafkaTimeoutError if there is no buffer space within that time; RecordTooLargeError;
        TypeError if a value cannot become bytes.
        """
        delivery: Delivery | None = None
        if self.is_plain and not headers and type(topic) is str:
            if type(value) is not bytes:
                value = plain_bytes(value)
            size = RECORD_BYTES + (len(value) if value is not None else 0)
            if key is not None:
                key = plain_bytes(key)
                size += len(key)
            delivery = self.place(topic, value, key, partition, timestamp_ms=timestamp_ms, size=size)
        if delivery is None:
            if not isinstance(topic, ProducerRecord):
                topic = ProducerRecord(topic, value, key, partition, timestamp_ms, header_list(headers))
            delivery = await self._enqueue(topic)
        if not delivery.index:
            # A caller may send in a tight loop. When a new batch exists, give the sender a chance to run.
            await asyncio.sleep(0)
        if on_delivery is not None:
            delivery.notify(on_delivery)
        return delivery

    def takes(self, topic: str, size: int, ahead: int = 0) -> bool:
        """Return whether a record of a known topic fits into the buffer, in addition to `ahead` other bytes.
        Thread-safe.
        """
        appender = self._appender
        if appender is None or self._closed or size > self._record_bytes_max:
            return False
        return topic in self._topics and appender.has_room(size + ahead)

    def place(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        *,
        timestamp_ms: Moment | None,
        size: int,
        room_is_sure: bool = False,
    ) -> Delivery | None:
        """Append a plain record of a known topic to a batch. Return None if the record cannot be appended at once.
        room_is_sure: skip the check of `buffer.memory`.
        """
        queues, appender = self._topics.get(topic), self._appender
        if queues is None or appender is None or self._closed or size > self._record_bytes_max:
            return None
        if not room_is_sure and appender.outcomes.buffered + size > self._buffer_bytes:
            return None
        partitions = queues.partitions
        if partition is None:
            partition = queues.sticky if key is None else partition_of_key(key, len(partitions))
        elif not 0 <= partition < len(partitions):
            return None
        return appender.append(partitions[partition], value, key, size, timestamp_ms)

    def place_values(self, topic: str, values: list[bytes | None]) -> Iterator[AppendedValues]:
        """Append many values as `place` does. Stop early if the topic is no longer known."""
        done = 0
        while done < len(values):
            queues, appender = self._topics.get(topic), self._appender
            if queues is None or appender is None or self._closed:
                return
            placed = appender.append_values(queues.partitions[queues.sticky], values, done)
            yield placed
            done = placed.end

    async def _enqueue(self, record: ProducerRecord) -> Delivery:
        record = each(self._interceptors, "on_send", record, lambda plugin, record: plugin.on_send(record))
        try:
            return await self._append(record)
        except Exception as error:
            self._acknowledge(None, error)
            raise

    async def _append(self, record: ProducerRecord) -> Delivery:
        self._refuse_if_closed()
        topic, partition, headers = record.topic, record.partition, header_list(record.headers)
        key, value = self._to_bytes(record, headers)
        size = (len(key) if key else 0) + (len(value) if value else 0) + RECORD_BYTES
        if size > self._record_bytes_max:
            raise RecordTooLargeError(f"a record of {size} bytes exceeds max.request.size={self._record_bytes_max}")
        appender = await self._started()
        queues = self._topics.get(topic) or await self._look_up(topic)
        if not appender.has_room(size):
            await appender.wait_for_room(size)
            queues = self._topics.get(topic) or await self._look_up(topic)
        if partition is None:
            partition = queues.sticky if key is None else partition_of_key(key, len(queues.partitions))
        elif not 0 <= partition < len(queues.partitions):
            queues = await self._look_up(topic)
            if not 0 <= partition < len(queues.partitions):
                raise self._no_partition(topic, partition)
        where = queues.partitions[partition]
        return appender.append(where, value, key, size, record.timestamp, headers=headers or None)

    def _to_bytes(self, record: ProducerRecord, headers: HeaderList) -> tuple[bytes | None, bytes | None]:
        serialize_key, serialize_value = self._serialize_key, self._serialize_value
        key, value = record.key, record.value
        return (
            plain_bytes(key) if serialize_key is None else serialize_key(record.topic, headers, key),
            plain_bytes(value) if serialize_value is None else serialize_value(record.topic, headers, value),
        )

    async def send_many(
        self,
        topic: str,
        records: Sequence[Any],
        *,
        partition: int | None = None,
        timestamp_ms: Moment | None = None,
    ) -> None:
        """Buffer many records, each a value or a tuple (key, value). This is the fast way for rows: it needs no Python
        work per record unless there are serializers or interceptors.

        Waits only for buffer space; `flush` waits for the acknowledgements and raises the first failure. Keeps the
        order within a partition.
        """
        if not self.is_plain:
            for record in records:
                key, value = record if isinstance(record, tuple) else (None, record)
                await self.enqueue(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms)
            return
        rows = records if isinstance(records, list) else list(records)
        appender = await self._started()
        done = 0
        while done < len(rows):
            queues = self._topics.get(topic) or await self._look_up(topic)
            if not appender.has_room(1):
                await appender.wait_for_room(1)
                continue
            if partition is not None and not 0 <= partition < len(queues.partitions):
                raise self._no_partition(topic, partition)
            if partition is None and isinstance(rows[done], tuple):
                done = appender.append_keyed(queues, rows, done, timestamp_ms)
            else:
                where = queues.partitions[queues.sticky if partition is None else partition]
                done = appender.append_values(where, rows, done, timestamp_ms).end
            if done < len(rows):
                await asyncio.sleep(0)

    def _no_partition(self, topic: str, partition: int) -> UnknownTopicError:
        return UnknownTopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self.cluster.absence(TopicPartition(topic, partition))
        )

    # Looking around -----------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions. Raises UnknownTopicError or KafkaTimeoutError if they are not known within
        `max.block.ms`.
        """
        await self._start()
        await self._look_up(topic)
        return self.cluster.partitions(topic)

    # Life ---------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Send all buffered records and wait for their acknowledgements. Raises the first failure that no caller has
        read.
        """
        if self._sender is not None:
            await self._sender.flush()

    async def close(self, timeout_s: float | None = None) -> None:
        """Write all buffered records, then close all connections.

        timeout_s: time limit. None: no limit while a broker responds, and 5 seconds without a response. Records that
        are not written by then fail; if no caller reads their failure, the method raises KafkaTimeoutError. To wait up
        to `delivery.timeout.ms`, call `flush` before.
        """
        await super().close(timeout_s)

    def _is_started(self) -> bool:
        return self._sender is not None

    def _begin(self, network: Network) -> None:
        self._sender = BatchSender(
            self._config,
            network,
            self._topics,
            self._metrics,
            self._batch_done,
            transaction=self._transaction_on(network),
        )
        self._appender = Appender(self._config, self._sender)

    def _transaction_on(self, network: Network) -> Transaction | None:
        """Return the producer's transactions; None for a producer without transactions."""
        del network
        return None

    async def _finish(self, patience: CloseTimeout) -> None:
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
        self._close_timed_out(network, f"The producer was closed before {count} records were written")
        if patience.by_silence and not self._interrupted:
            sender.raise_unseen()

    async def _stop(self) -> None:
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        if self._sender is not None:
            await self._sender.close()

    async def _started(self) -> Appender:
        """Start the client if necessary and return its appender. Raises RuntimeError if the client is closed."""
        if self._appender is None or self._closed:
            await self._start()
        assert self._appender is not None, "_start has it made or raises"
        return self._appender

    async def _look_up(self, topic: str) -> TopicQueues:
        """Return the queues of a topic. If the topic is unknown, first look it up, or let the broker create it.
        Concurrent callers wait for the same lookup.
        """
        looking = self._looking.get(topic)
        if looking is None:
            looking = self._looking[topic] = asyncio.create_task(self._look_for(topic))
            looking.add_done_callback(lambda done: self._looked_up(topic, done))
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            if looking.cancelled():
                self._refuse_if_closed()  # The close cancelled the lookup; the caller did not.
            raise

    def _looked_up(self, topic: str, done: asyncio.Task[TopicQueues]) -> None:
        del self._looking[topic]
        if not done.cancelled():
            done.exception()  # Mark the exception as retrieved. If callers wait, it is raised there.

    async def _look_for(self, topic: str) -> TopicQueues:
        network, sender = self._network, self._sender
        assert network is not None, "started"
        assert sender is not None, "started"
        backoff = Backoff(self._config.seconds("retry.backoff.ms"), self._config.seconds("retry.backoff.max.ms"))
        failure: Exception | None = None
        name, warned = self._config["client.id"], False
        loop = asyncio.get_running_loop()
        began = loop.time()
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
                            log.warning("[%s] topic %s does not exist; waiting for it", name, topic)
                            warned = True
                        failure = refused
                    if not warned and loop.time() - began >= WARN_AFTER_S:
                        log.warning("[%s] still waiting for topic %s: %s", name, topic, failure)
                        warned = True
                    self._refuse_if_closed()
                    await asyncio.sleep(backoff.next())
        except TimeoutError:
            if not scope.expired():
                raise
        limit = f"max.block.ms={self._block_s * 1000:.0f}"
        if isinstance(failure, KafkaError) and failure.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(failure.code, f"topic {topic} does not exist after {limit}")
        raise network.overdue(f"topic {topic} is still unknown after {limit}", failure)

    def _batch_done(self, batch: Batch, error: Exception | None) -> None:
        """Call the interceptors for each record of a batch."""
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
    """Raise ClientConfigError if settings contradict each other."""
    if not config["enable.idempotence"]:
        return
    if config["acks"] != -1:
        if "enable.idempotence" in config:
            raise ClientConfigError("enable.idempotence=true requires acks=all")
        return
    if config["max.in.flight.requests.per.connection"] > 5:
        raise ClientConfigError("enable.idempotence=true requires max.in.flight.requests.per.connection of at most 5")
