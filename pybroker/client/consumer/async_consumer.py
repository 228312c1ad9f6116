"""`Consumer`: reads records of topics, alone or in a group; a position belongs to one incarnation of a topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from pybroker.client.client_errors import KafkaError
from pybroker.client.cluster_metadata import PartitionInfo, TopicPartition
from pybroker.client.config import CONSUMER, ClientConfig, check_protocol
from pybroker.client.connection.client_lifecycle import ClientLifecycle
from pybroker.client.connection.client_metadata import TopicRecreation
from pybroker.client.connection.close_timeout import CloseTimeout
from pybroker.client.connection.network import LOST, Network
from pybroker.client.consumer.fetch_positions import DeliveredRecords, PartitionState, Positions
from pybroker.client.consumer.fetcher import Fetcher
from pybroker.client.consumer.group.group_membership import GroupMembership, GroupMetadata
from pybroker.client.consumer.group.rebalances import RebalanceListener, Rebalances
from pybroker.client.consumer.missing_topics import MissingTopics
from pybroker.client.consumer.reset_policy import ResetPolicy
from pybroker.client.consumer.topic_subscription import Subscription
from pybroker.client.offset_types import Moment, OffsetAndMetadata, OffsetAndTimestamp, OffsetSpec, with_metadata
from pybroker.client.plugins.client_metrics import CONSUMER_METRICS
from pybroker.client.plugins.interceptors import each
from pybroker.client.plugins.serialization import configured, deserialize_with
from pybroker.native import ConsumerRecord

log = logging.getLogger(__name__)

_ITERATION_POLL_S = 1.0


class Consumer(ClientLifecycle):
    """Reads records, asynchronously; `pybroker.client.blocking.Consumer` has the same calls without asyncio.

        async with Consumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "readers"}) as consumer:
            consumer.subscribe(["words"])
            async for record in consumer:
                print(record.value)

    A position belongs to one incarnation of a topic. When a topic is deleted and created again, the consumer continues
    at the start of the new incarnation (with `auto.offset.reset=none` it raises TopicRecreatedError), and never uses or
    commits an offset of the old one for it.

    config: settings under Kafka's names; an unknown name raises ClientConfigError. Use it from one event loop.
    """

    _kind = "consumer"
    _end_max_s = 30.0  # Limit in seconds, as in Kafka's consumer: a group may never become ready.

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(ClientConfig(CONSUMER, config), CONSUMER_METRICS)
        check_protocol(self._config)
        self._interceptors = self._config.plugins("interceptor.classes")
        self._reporters = self._config.plugins("metric.reporters")
        key, value = self._config.plugin("key.deserializer"), self._config.plugin("value.deserializer")
        self._deserializers = deserialize_with(key), deserialize_with(value)
        self._plugins = configured(self._config.originals(), [*self._interceptors, *self._reporters], key, value)
        self._positions = Positions()
        self._fetcher: Fetcher | None = None
        self._subscription = Subscription(self._config)
        self._missing = MissingTopics(self._config)
        self._polling = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._rebalances = Rebalances(
            self._config,
            self._positions,
            self._metrics,
            self._interceptors,
            arrived=self._arrived.set,
            wake=self._wake,
        )
        self._recreated: list[TopicRecreation] = []
        # The partition from which the iteration yields records, until the chunk is used up.
        self._current: PartitionState | None = None
        self._handed = DeliveredRecords()
        for reporter in self._reporters:
            reporter.init(self._metrics)

    # What to read -------------------------------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str] | str, *, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe to topics with the other members of `group.id`; replaces the previous subscription.

        topics: names, or a compiled pattern that must match the whole name. listener: called when partitions are
        assigned or revoked. Raises ValueError if there is no `group.id`.
        """
        if self._config["group.id"] is None:
            raise ValueError("subscribe() requires group.id; set it, or use assign()")
        if self._subscription.topics is None and self._positions.assigned():
            raise ValueError("partitions are assigned manually; call unsubscribe() first")
        self._rebalances.listener = listener or RebalanceListener()
        self._subscription.choose(topics)
        self._arrived.set()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group membership. Raises ValueError if topics are subscribed,
        TypeError if an element is not a TopicPartition.
        """
        partitions = list(partitions)
        for partition in partitions:
            if not isinstance(partition, TopicPartition):
                raise TypeError(f"assign() requires TopicPartition(topic, partition), got {partition!r}")
        if self._subscription.topics is not None:
            raise ValueError("topics are subscribed; call unsubscribe() first")
        self._positions.assign(partitions)
        self._wake()

    async def unsubscribe(self) -> None:
        """Leave the group and drop all assigned partitions."""
        if self._subscription.topics is not None:
            await self._rebalances.leave()
        self._subscription.clear()
        self._positions.assign(())

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._positions.assigned()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._subscription.topics or frozenset()

    # Reading ------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return the next records; an empty list after `timeout_s` seconds. The call also joins the group, runs the
        listener and commits automatically, as needed.

        max_records: None = `max.poll.records`. When all earlier records have been returned, raises KafkaError for an
        error (NoOffsetError, TopicRecreatedError, a corrupt batch, a deserializer's error as its cause, …). To continue
        after the record that causes the error, use `seek`.
        """
        found = await self.getmany(timeout_s, max_records=max_records)
        return [record for records in found.values() for record in records]

    async def getmany(
        self, timeout_s: float = 1.0, *, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition; otherwise as `poll`."""
        limit = self._config["max.poll.records"] if max_records is None else max_records
        async with self._polling:
            loop = asyncio.get_running_loop()
            give_up = loop.time() + timeout_s
            self._handed.deliver({})
            await self._start()
            while True:
                self._arrived.clear()
                try:
                    await self._prepare(give_up)
                except (*LOST, KafkaError):
                    if not self._closed:
                        raise
                if self._closed:
                    return {}  # Another task has closed the consumer: new records could not be committed.
                found = self._take(limit)
                left = give_up - loop.time()
                if found or left <= 0:
                    return found
                await self._wait(min(left, _ITERATION_POLL_S))

    async def _wait(self, seconds: float) -> None:
        """Wait until data or an event arrives, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            pass

    async def getone(self) -> ConsumerRecord:
        """Wait for the next record and return it."""
        while True:
            records = await self.poll(_ITERATION_POLL_S, max_records=1)
            if records:
                return records[0]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        # If records are buffered, do not await. The position advances with each record.
        member, state = self._member, self._current
        rejoins = member is not None and member.must_rejoin
        if (
            self._fetcher is not None
            and not (self._polling.locked() or rejoins)
            and self._rebalances.commit_is_not_due()
        ):
            if member is not None:
                member.polled()
            if state is not None and self._is_current(state):
                record = state.chunks[0].next()
                if record is not None:
                    state.position, state.epoch = record.offset + 1, record.leader_epoch
                    self._metrics.add("records-consumed-total")
                    self._handed.last = record
                    return record
            for where, records in self._take(1).items():
                self._current = self._positions.get(where)
                return records[0]
        try:
            if not self._closed:
                return await self.getone()
        except RuntimeError:
            if not self._closed:
                raise
        raise StopAsyncIteration

    def handed_out(self, record: ConsumerRecord) -> None:
        """For a wrapper that polls ahead: note the record that it has yielded last. At close, only this record counts
        as unfinished."""
        self._handed.last = record

    def _is_current(self, state: PartitionState) -> bool:
        ours = self._positions.get(state.where) is state
        return ours and bool(state.chunks) and not (state.paused or self._interceptors)

    def _take(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        found = self._positions.take(limit)
        if found:
            self._handed.deliver(found)
            self._metrics.add("records-consumed-total", sum(map(len, found.values())))
            if self._fetcher is not None:
                self._fetcher.wake()
            if self._interceptors:
                found = {
                    where: each(self._interceptors, "on_consume", records, _consume) for where, records in found.items()
                }
        return found

    # Positions ----------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset`. Raises ValueError if the partition is not assigned."""
        if offset < 0:
            raise ValueError(f"offset {offset}: must not be negative")
        self._positions.of(partition).seek(offset)
        self._handed.note_commit_or_seek(partition)
        self._wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of these partitions, or of all assigned partitions."""
        self._look_for(partitions, OffsetSpec.earliest())

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of these partitions, or of all assigned partitions."""
        self._look_for(partitions, OffsetSpec.latest())

    def _look_for(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> None:
        for where in partitions or sorted(self._positions.assigned()):
            self._positions.of(where).look_for(spec)
            self._handed.note_commit_or_seek(where)
        self._wake()

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record; waits until it is known. Raises ValueError if the partition is not
        assigned, UnknownTopicError if it does not exist.
        """
        state = self._positions.of(partition)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._config.seconds("default.api.timeout.ms")
        # A rebalance listener may call this method too. It runs inside a poll, which has the lock.
        async with contextlib.nullcontext() if self._rebalances.in_listener else self._polling:
            await self._start()
            while state.position is None:
                self._arrived.clear()
                if self._rebalances.in_listener:
                    await self._beginnings.find([state], by_hand=self._subscription.topics is None)
                else:
                    await self._prepare(loop.time() + _ITERATION_POLL_S)
                if state.chunks and state.chunks[0].error is not None:
                    raise state.chunks[0].error
                if state.position is None:
                    assert self._network is not None, "started"
                    await self._network.existing([partition])
                    if loop.time() > give_up:
                        raise self._network.overdue(f"the position of {partition} is unknown")
                    await self._wait(_ITERATION_POLL_S)
        return state.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        for where in partitions:
            self._positions.of(where).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        for where in partitions:
            self._positions.of(where).paused = False
        self._wake()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(state.where for state in self._positions if state.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of records between the position and the high watermark of the last fetch; None before the
        first fetch.
        """
        state = self._positions.of(partition)
        if state.high_watermark < 0 or state.position is None:
            return None
        return max(0, state.high_watermark - state.position)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets."""
        found = await self._offsets({where: OffsetSpec.earliest() for where in partitions})
        return {where: result.offset for where, result in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offsets: in each partition the offset that the next record will get."""
        found = await self._offsets({where: OffsetSpec.latest() for where in partitions})
        return {where: result.offset for where, result in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, Moment]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (milliseconds since 1970 or a datetime); None if there is no such
        record."""
        found = await self._offsets({where: OffsetSpec.for_timestamp(time) for where, time in times.items()})
        return {where: result if result.offset >= 0 else None for where, result in found.items()}

    async def _offsets(self, requested: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        await self._start()
        assert self._fetcher is not None, "started"
        return await self._fetcher.lookup.find(requested)

    # Committed offsets --------------------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Commit the given offsets, or else the positions after all delivered records.

        If the broker can, commits by topic id, so that an offset never reaches another incarnation. timeout_s: None =
        `default.api.timeout.ms`. Raises CommitFailedError if the group has rebalanced, BrokerConnectionError if the
        coordinator cannot be reached, ValueError if there is no `group.id`.
        """
        await self._start()
        chosen = self._rebalances.consumed() if offsets is None else with_metadata(offsets)
        await self._rebalances.commit(chosen, timeout_s)
        for where, committed in chosen.items():
            state = self._positions.get(where)
            self._handed.note_commit_or_seek(where, committed.offset, state.position if state is not None else None)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets. The result omits a partition without a committed offset in its current incarnation.
        """
        await self._start()
        requested = list(partitions)
        network = self._network
        assert network is not None, "started"
        await network.refresh({where.topic for where in requested})
        return await self._rebalances.commits().committed(requested)

    # Looking around -----------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions; empty if it does not exist."""
        await self._start()
        assert self._network is not None, "started"
        return (await self._network.refresh((topic,))).partitions(topic)

    @property
    def _member(self) -> GroupMembership | None:
        return self._rebalances.member

    def group_metadata(self) -> GroupMetadata | None:
        """Return this consumer's identity in its group; None if it is not a member."""
        return self._member.metadata if self._member is not None else None

    # Inside a poll ------------------------------------------------------------------------------------------

    async def _prepare(self, give_up: float) -> None:
        """Do the work that must be done before records are returned. Wait for other group members until `give_up` (loop
        time).
        """
        if self._fetcher is not None:
            self._fetcher.raise_failure()
        await self._tell_recreated()
        await self._rebalances.commit_if_due()
        if self._subscription.topics is not None:
            self._rebalances.commits()
            member, network = self._member, self._network
            assert member is not None, "made with the commits"
            assert network is not None, "started"
            names = await self._subscription.names(network)
            member.subscribe(names, self._subscription.regex)
            create = self._config["allow.auto.create.topics"]
            if missing := self._missing.due(network.cluster, names):
                await network.refresh(missing, create=create)
            member.notice_topics()
            await member.ensure_active(give_up)
            self._missing.log_warnings(network.cluster, names)
        fresh = [state for state in self._positions if state.position is None and state.reset is None]
        fresh = [state for state in fresh if not state.chunks]
        if fresh:
            await self._beginnings.find(fresh, by_hand=self._subscription.topics is None)

    async def _tell_recreated(self) -> None:
        while self._recreated:
            change = self._recreated.pop(0)
            await self._rebalances.await_listener(
                self._rebalances.listener.on_topic_recreated(change.topic, change.old, change.new)
            )

    # Life ---------------------------------------------------------------------------------------------------

    def _is_started(self) -> bool:
        return self._fetcher is not None

    def _refuse_if_closed(self) -> None:
        # A listener that runs during the close may still use the consumer.
        if not self._rebalances.in_listener:
            super()._refuse_if_closed()

    def _begin(self, network: Network) -> None:
        self._rebalances.start(network)
        self._fetcher = Fetcher(
            self._config,
            network,
            self._positions,
            self._metrics,
            self._deserializers,
            arrived=self._arrived.set,
            recreated=self._note_recreated,
        )
        self._beginnings = ResetPolicy(self._config, network, self._fetcher, self._rebalances, self._missing)

    def _note_recreated(self, change: TopicRecreation) -> None:
        self._recreated.append(change)
        if self._member is not None and self._subscription.topics is not None:
            self._member.request_rejoin(f"topic {change.topic} was created again")

    def _wake(self) -> None:
        if self._fetcher is not None:
            self._fetcher.wake()

    async def close(self, timeout_s: float | None = None) -> None:
        """Commit if auto-commit is on, leave the group, close all connections.

        timeout_s: time limit; None = 30 seconds, or 5 seconds if no broker responds. Delivered records count as
        finished, unless an exception ends a `with` block. In that case the last record of an iteration, or the records
        of the last poll, count as unfinished and are not committed.
        """
        await super().close(timeout_s)

    async def _finish(self, patience: CloseTimeout) -> None:
        self._arrived.set()
        offsets = self._rebalances.consumed()
        if self._interrupted:
            for where, first in self._handed.unfinished().items():
                if where in offsets:
                    offsets[where] = OffsetAndMetadata(first)
        subscribed = self._subscription.topics is not None
        if not await self._rebalances.finish(patience, offsets, subscribed=subscribed):
            assert self._network is not None, "else there is nothing to finish"
            self._close_timed_out(
                self._network,
                f"No broker of group {self._config['group.id']} accepted the last commit or the leave request",
            )

    async def _stop(self) -> None:
        self._arrived.set()
        await self._rebalances.stop()
        if self._fetcher is not None:
            await self._fetcher.close()


def _consume(plugin: Any, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    return list(plugin.on_consume(records))
