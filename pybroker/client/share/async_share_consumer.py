"""`ShareConsumer`: records of a share group, acknowledged individually (KIP-932)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from pybroker.client.client_errors import ClientConfigError, ErrorCode, KafkaError, is_retriable
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import SHARE_CONSUMER, ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.client_lifecycle import ClientLifecycle
from pybroker.client.connection.close_timeout import CloseTimeout
from pybroker.client.connection.network import LOST, Network
from pybroker.client.plugins.client_metrics import SHARE_CONSUMER_METRICS
from pybroker.client.plugins.serialization import configured, deserialize_with
from pybroker.client.share.acknowledgements import AcknowledgeType, Partition
from pybroker.client.share.acquired_records import AcquiredRecords, decode_acquired
from pybroker.client.share.share_member import ShareMember
from pybroker.client.share.share_session import ShareSession
from pybroker.native import ConsumerRecord, RecordDecoder, Uuid

log = logging.getLogger(__name__)

_ITERATION_POLL_S = 1.0

Place = tuple[Uuid, int, int]
"""(topic id, partition, offset)"""


class _AcquiredRecord(NamedTuple):
    session: ShareSession
    deliveries: int


class ShareConsumer(ClientLifecycle):
    """Reads as a member of a share group, asynchronously; `pybroker.client.blocking.ShareConsumer` has the same calls
    without asyncio.

        async with ShareConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "workers"}) as consumer:
            consumer.subscribe(["jobs"])
            async for record in consumer:
                print(record.value)

    Members of a share group read the same partitions. The broker delivers each record to one member at a time, and
    delivers it again if the member releases it or does not acknowledge it within the group's
    `share.record.lock.duration.ms`.

    config: settings under Kafka's names; an unknown name raises ClientConfigError. Use it from one event loop.
    """

    _kind = "share consumer"
    _end_max_s = 30.0

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(ClientConfig(SHARE_CONSUMER, config), SHARE_CONSUMER_METRICS)
        if self._config["group.id"] is None:
            raise ClientConfigError("group.id is not set; a share consumer requires it")
        self._reporters = self._config.plugins("metric.reporters")
        key, value = self._config.plugin("key.deserializer"), self._config.plugin("value.deserializer")
        self._plugins = configured(self._config.originals(), self._reporters, key, value)
        self._decoder = RecordDecoder(
            check_crcs=self._config["check.crcs"],
            key_deserializer=deserialize_with(key),
            value_deserializer=deserialize_with(value),
        )
        self._explicit = self._config["share.acknowledgement.mode"] == "explicit"
        self._topics: frozenset[str] = frozenset()
        self._member: ShareMember | None = None
        self._sessions: dict[int, ShareSession] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._backoff = Backoff(self._config.seconds("retry.backoff.ms"), self._config.seconds("retry.backoff.max.ms"))
        self._ready: deque[tuple[ConsumerRecord, _AcquiredRecord]] = deque()
        """Records that are acquired but not delivered to the caller yet."""
        self._given: dict[Place, _AcquiredRecord] = {}
        """Records that are delivered to the caller but not acknowledged yet."""
        self._results: dict[TopicPartition, KafkaError | None] = {}
        self._failure: Exception | None = None
        self._looking: asyncio.Task[None] | None = None
        self._polling = asyncio.Lock()
        self._arrived = asyncio.Event()
        for reporter in self._reporters:
            reporter.init(self._metrics)

    # What to read -------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Subscribe to topics with the other members of `group.id`; replaces the previous subscription."""
        self._topics = frozenset((topics,) if isinstance(topics, str) else topics)
        if self._member is not None:
            self._member.subscribe(self._topics)

    async def unsubscribe(self) -> None:
        """Leave the group. Delivered records can still be acknowledged."""
        self._topics = frozenset()
        if self._member is not None:
            await self._member.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._topics

    # Reading ------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return the next records; an empty list after `timeout_s` seconds. With share.acknowledgement.mode=implicit,
        it first accepts the records delivered earlier.

        max_records: None = `max.poll.records`. Raises RuntimeError if a record is not acknowledged yet (explicit mode),
        and KafkaError if a retry cannot fix an error or if a record is unreadable. After an unreadable record, the
        consumer has released the record, or rejected it if its batch is corrupt; the next poll returns the records
        after it.
        """
        limit = self._config["max.poll.records"] if max_records is None else max_records
        async with self._polling:
            loop = asyncio.get_running_loop()
            give_up = loop.time() + timeout_s
            self._settle()
            await self._start()
            while True:
                self._arrived.clear()
                if self._closed:
                    return []
                assert self._member is not None, "started"
                if self._topics:
                    self._member.polled()
                records = self._take(limit)
                if not records and self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise failure
                left = give_up - loop.time()
                if records or left <= 0:
                    return records
                self._dispatch()
                try:
                    async with asyncio.timeout(min(left, _ITERATION_POLL_S)):
                        await self._arrived.wait()
                except TimeoutError:
                    pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._closed:
            if self._ready and self._member is not None and not self._polling.locked():
                self._settle()
                self._member.polled()
                return self._take(1)[0]
            records = await self.poll(_ITERATION_POLL_S, max_records=1)
            if records:
                return records[0]
        raise StopAsyncIteration

    def _take(self, limit: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        while self._ready and len(records) < limit:
            record, held = self._ready.popleft()
            self._given[record.topic_id, record.partition, record.offset] = held
            records.append(record)
        self._metrics.add("records-consumed-total", len(records))
        return records

    # Acknowledging ------------------------------------------------------------------------------------------

    def acknowledge(self, record: ConsumerRecord, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a delivered record; the next poll or `commit` sends it to the broker. Raises RuntimeError if
        share.acknowledgement.mode is implicit, ValueError if the record was not delivered or is already acknowledged.
        """
        if not self._explicit:
            raise RuntimeError(
                "share.acknowledgement.mode=implicit acknowledges records automatically; set explicit to use "
                "acknowledge()"
            )
        place = record.topic_id, record.partition, record.offset
        self._held(record)
        self._say(place, self._given.pop(place), AcknowledgeType(type))

    def delivery_count(self, record: ConsumerRecord) -> int:
        """Return how often a record has been delivered to members, including this time. Raises ValueError if the record
        was not delivered or is already acknowledged.
        """
        return self._held(record).deliveries

    async def renew(self, *records: ConsumerRecord) -> None:
        """Extend the locks of records by another share.record.lock.duration.ms (KIP-1222). Raises ValueError if a
        record was not delivered, KafkaError INVALID_RECORD_STATE if another member has acquired one of the records by
        now, UnsupportedVersionError if the broker cannot extend locks.
        """
        offsets: dict[ShareSession, dict[Partition, list[int]]] = {}
        for record in records:
            partition = record.topic_id, record.partition
            offsets.setdefault(self._held(record).session, {}).setdefault(partition, []).append(record.offset)
        for session, each in offsets.items():
            await session.renew(each)

    async def commit(self) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements and wait until the broker has stored them. With
        share.acknowledgement.mode=implicit, first accept the delivered records.

        Return partition → result since the last call: None, or the error with which acknowledgements failed. The group
        may deliver the records of failed acknowledgements again.
        """
        if not self._explicit:
            self._settle()
        failed = await asyncio.gather(*(each.acknowledge() for each in self._sessions.values()), return_exceptions=True)
        for problem in failed:
            # Connection errors and top-level errors are in the results.
            if isinstance(problem, BaseException) and not isinstance(problem, (*LOST, KafkaError)):
                raise problem
        results, self._results = self._results, {}
        return results

    def _held(self, record: ConsumerRecord) -> _AcquiredRecord:
        held = self._given.get((record.topic_id, record.partition, record.offset))
        if held is None:
            where = TopicPartition(record.topic, record.partition)
            raise ValueError(
                f"{where}, offset {record.offset}, is not acquired by this consumer or already acknowledged"
            )
        return held

    def _settle(self) -> None:
        """In implicit mode, accept the delivered records. In explicit mode, raise an error if a record is not
        acknowledged.
        """
        if self._explicit:
            if self._given:
                topic_id, index, offset = next(iter(self._given))
                where = TopicPartition(self.cluster.topic_name(topic_id) or str(topic_id), index)
                raise RuntimeError(
                    f"{where}, offset {offset}, must be acknowledged first (share.acknowledgement.mode=explicit)"
                )
            return
        for place, held in self._given.items():
            self._say(place, held, AcknowledgeType.ACCEPT)
        self._given.clear()

    def _say(self, place: Place, held: _AcquiredRecord, kind: int) -> None:
        topic_id, index, offset = place
        held.session.say((topic_id, index), offset, kind)

    def _acknowledged(self, partition: Partition, offsets: Mapping[int, int], problem: KafkaError | None) -> None:
        self._metrics.add("acknowledgements-send-total", len(offsets))
        where = TopicPartition(self.cluster.topic_name(partition[0]) or str(partition[0]), partition[1])
        if problem is not None:
            self._metrics.add("acknowledgements-error-total", len(offsets))
            log.info("%s: %s acknowledgements failed: %s", where, len(offsets), problem)
            self._look_around()
        self._results[where] = problem or self._results.get(where)

    # Fetching -----------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Start one request at a time to each broker that leads an assigned partition."""
        assert self._member is not None, "started"
        assert self._network is not None, "started"
        cluster, unknown = self._network.cluster, False
        wanted: dict[int, set[Partition]] = {}
        for topic_id, index in self._member.partitions:
            name = cluster.topic_name(topic_id)
            leader = -1 if name is None else cluster.leader_id(TopicPartition(name, index))
            if leader < 0:
                unknown = True
            else:
                wanted.setdefault(leader, set()).add((topic_id, index))
        old = asyncio.get_running_loop().time() - self._network.metadata.updated_at
        if unknown or old > self._config.seconds("metadata.max.age.ms"):
            self._look_around()
        for node, partitions in wanted.items():
            if node not in self._asking:
                self._asking[node] = asyncio.create_task(self._fetch(node, frozenset(partitions)))
        for node, session in self._sessions.items():
            if session.said and node not in self._asking:
                self._asking[node] = asyncio.create_task(self._send_acknowledgements(node, session))

    async def _send_acknowledgements(self, node: int, session: ShareSession) -> None:
        """Send acknowledgements to a broker from which the member no longer reads records."""
        try:
            await session.acknowledge()
        except (*LOST, KafkaError) as error:
            log.info("Broker %s rejected acknowledgements: %s", node, error)
        finally:
            del self._asking[node]

    async def _fetch(self, node: int, wanted: frozenset[Partition]) -> None:
        assert self._member is not None, "started"
        assert self._network is not None, "started"
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = ShareSession(
                self._config, self._network, node, self._member.member_id, self._acknowledged
            )
        try:
            answer = await session.fetch(wanted)
            self._metrics.add("fetch-total")
            for topic in answer.responses:
                for row in topic.partitions:
                    self._took(session, topic.topic_id, row)
            self._backoff.reset()
        except (*LOST, KafkaError) as error:
            log.info("Broker %s does not return records: %s", node, error)
            if isinstance(error, KafkaError) and not is_retriable(error.code):
                self._failure = error
            else:
                await asyncio.sleep(self._backoff.next())
                self._look_around()
        finally:
            del self._asking[node]
            self._arrived.set()

    def _took(self, session: ShareSession, topic_id: Uuid, row: Any) -> None:
        """Take over the acquired records of one partition from a response."""
        name = self.cluster.topic_name(topic_id)
        if row.error_code:
            if is_retriable(row.error_code) or row.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
                self._look_around()
            else:
                self._failure = KafkaError(row.error_code, f"{name or topic_id}-{row.partition_index}")
            return
        if not row.acquired_records:
            return
        self._metrics.add("bytes-consumed-total", len(row.records))
        found: AcquiredRecords = decode_acquired(self._decoder, row, topic=name or "", topic_id=topic_id)
        for offset, kind in found.answered.items():
            session.say((topic_id, row.partition_index), offset, kind)
        if found.problem is not None:
            self._failure = found.problem
        self._ready.extend((record, _AcquiredRecord(session, count)) for record, count in found.records)

    def _look_around(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        assert self._network is not None, "started"
        try:
            await self._network.refresh(self._topics)
        except (*LOST, KafkaError) as error:
            log.info("Metadata update failed: %s", error)
            await asyncio.sleep(self._backoff.next())
        self._arrived.set()

    # Life ---------------------------------------------------------------------------------------------------

    def _is_started(self) -> bool:
        return self._member is not None

    def _begin(self, network: Network) -> None:
        self._member = ShareMember(self._config, network, self._metrics, self._arrived.set)
        if self._topics:
            self._member.subscribe(self._topics)

    async def close(self, timeout_s: float | None = None) -> None:
        """Send acknowledgements, release the other records, leave the group, close all connections.

        timeout_s: time limit; None = 30 seconds, or 5 seconds if no broker responds. With
        share.acknowledgement.mode=implicit the delivered records are accepted first, unless an exception has left a
        `with` block.
        """
        await super().close(timeout_s)

    async def _finish(self, patience: CloseTimeout) -> None:
        self._arrived.set()
        if self._member is None:
            return
        if not self._explicit and not self._interrupted:
            self._settle()
        if not await patience.wait_for(self._take_leave(self._member)):
            assert self._network is not None, "started"
            self._close_timed_out(
                self._network,
                f"No broker of group {self._config['group.id']} accepted the acknowledgements or the leave request",
            )

    async def _take_leave(self, member: ShareMember) -> None:
        await asyncio.gather(*list(self._asking.values()), return_exceptions=True)
        await asyncio.gather(*(each.acknowledge(ends=True) for each in self._sessions.values()), return_exceptions=True)
        await member.unsubscribe()

    async def _stop(self) -> None:
        self._arrived.set()
        tasks = [*self._asking.values(), *([self._looking] if self._looking is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._member is not None:
            await self._member.stop()
