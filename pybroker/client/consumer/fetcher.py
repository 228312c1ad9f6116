"""Prefetches records: one request at a time to each broker that leads an assigned partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from pybroker.client.client_errors import KafkaError, NoOffsetError, TopicRecreatedError, broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.client_metadata import TopicRecreation
from pybroker.client.connection.network import LOST, Network
from pybroker.client.connection.offset_requests import heeds_ids
from pybroker.client.connection.wake_loop import WakeLoop
from pybroker.client.consumer.fetch_positions import Chunk, PartitionState, Positions
from pybroker.client.consumer.fetch_session import BY_ID, FetchPartition, FetchSession
from pybroker.client.consumer.offset_lookup import OffsetLookup
from pybroker.client.offset_types import OffsetSpec
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.plugins.serialization import Deserialize
from pybroker.native import RecordDecoder, Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

LANE = "fetch"
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
_IDENTITY = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)


class Fetcher:
    """Runs until `close`. Fetches the partitions of `positions` and buffers records there. `lookup` finds offsets."""

    def __init__(
        self,
        config: ClientConfig,
        network: Network,
        positions: Positions,
        metrics: ClientMetrics,
        deserializers: tuple[Deserialize | None, Deserialize | None],
        *,
        arrived: Callable[[], None],
        recreated: Callable[[TopicRecreation], None],
    ) -> None:
        self._config = config
        self._network = network
        self._positions = positions
        self._metrics = metrics
        self._decoder = RecordDecoder(
            check_crcs=config["check.crcs"], key_deserializer=deserializers[0], value_deserializer=deserializers[1]
        )
        self._arrived = arrived
        self._tell_recreated = recreated
        self.lookup = OffsetLookup(config, network)
        self._loop = asyncio.get_running_loop()
        self._committed_only = config["isolation.level"] == "read_committed"
        self._policy: str = config["auto.offset.reset"]
        self._sessions: dict[int, FetchSession] = {}
        self._asking: set[int] = set()
        # Topics that were recreated while this consumer read them, and from whose new incarnation it has not read a
        # record yet.
        self._renewed: dict[str, TopicRecreation] = {}
        self._logged_ids: dict[str, Uuid] = {}
        self._failure: KafkaError | None = None
        self._finding: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._backoff = Backoff(config.seconds("retry.backoff.ms"), config.seconds("retry.backoff.max.ms"))
        network.metadata.on_recreated(self._recreated)
        self._background = WakeLoop(self._dispatch, "The consumer's fetcher")

    def wake(self) -> None:
        """Fetch again soon, because positions changed."""
        self._background.wake()

    def raise_failure(self) -> None:
        """Raise an error that a retry cannot fix, such as a failed login. The next call tries again."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _note(self, error: Exception) -> None:
        if isinstance(error, KafkaError) and not error.retriable:
            self._failure = error
            self._arrived()

    async def close(self) -> None:
        """Cancel all requests. Brokers drop the fetch sessions by themselves."""
        await self._background.close()

    # The loop -----------------------------------------------------------------------------------------------

    def _dispatch(self) -> float:
        now = self._loop.time()
        next_time = now + self._config.seconds("metadata.max.age.ms")
        if now - self._network.metadata.updated_at > self._config.seconds("metadata.max.age.ms"):
            self._refresh()
        cluster = self._network.cluster
        requested: dict[int, dict[TopicPartition, FetchPartition]] = {}
        for state in self._positions:
            if state.not_before > now:
                next_time = min(next_time, state.not_before)
                continue
            info = cluster.partition(state.where)
            if info is None or cluster.node(info.leader) is None:
                state.not_before = now + self._backoff.next()
                next_time = min(next_time, state.not_before)
                self._refresh()
                continue
            self._notice(state, cluster.topic_id(state.where.topic), info.leader_epoch)
            if state.reset is not None or state.validate:
                self._find()
            elif state.may_fetch(now):
                node = self._read_from(state, info.leader, now)
                if node not in self._asking:
                    requested.setdefault(node, {})[state.where] = FetchPartition(
                        state.topic_id, info.leader_epoch, state.fetch_offset
                    )
        for node, partitions in requested.items():
            self._asking.add(node)
            self._background.spawn(self._fetch(node, partitions))
        return max(0.0, next_time - self._loop.time())

    def _read_from(self, state: PartitionState, leader: int, now: float) -> int:
        """Return the broker to fetch from: the leader, or the nearby replica that the leader named (KIP-392). After a
        while, ask the leader again for the replica.
        """
        if state.near >= 0 and (now >= state.near_until or self._network.cluster.node(state.near) is None):
            state.near = -1
        return state.near if state.near >= 0 else leader

    def _notice(self, state: PartitionState, topic_id: Any, leader_epoch: int) -> None:
        """Update a partition's topic id and leader epoch from the metadata. If the leader epoch is new, the position
        must be validated.
        """
        if not state.topic_id:
            state.topic_id = topic_id
        if leader_epoch > state.leader_epoch:
            state.near = -1
            if state.leader_epoch >= 0 and state.epoch >= 0 and state.position is not None:
                state.validate = True
            state.leader_epoch = leader_epoch

    # Fetching -----------------------------------------------------------------------------------------------

    async def _fetch(self, node: int, requested: dict[TopicPartition, FetchPartition]) -> None:
        session = self._sessions.setdefault(node, FetchSession())
        asked = {where: (state, state.turn) for where in requested if (state := self._positions.get(where)) is not None}
        try:
            connection = await self._network.connection(node, LANE)
            highest = connection.highest(m.FetchRequest)
            version = highest if all(want.topic_id for want in requested.values()) else min(highest, BY_ID - 1)
            request = self._request(session, requested, version)
            limit = self._config.seconds("request.timeout.ms") + self._config.seconds("fetch.max.wait.ms")
            answer = await connection.request(request, version, timeout_s=limit)
            self._metrics.add("fetch-total")
            if answer.error_code:
                session.reset()
                if answer.error_code not in _SESSION_ERRORS:
                    raise broker_error(answer.error_code, about="fetch")
                return
            # Take the names before `answered`, because `answered` drops them if the broker's session cache is full.
            names = session.names() if version >= BY_ID else {}
            session.answered(answer.session_id)
            self._take(session, answer, names, requested, asked, node=node)
            self._backoff.reset()
        except (*LOST, KafkaError) as error:
            session.reset()
            for state, _ in asked.values():
                if state.near == node:
                    state.near = -1
            log.info("Broker %s does not return records: %s", node, error)
            self._note(error)
            await asyncio.sleep(self._backoff.next())
            self._refresh()
        finally:
            self._asking.discard(node)
            self._background.wake()

    def _request(self, session: FetchSession, requested: dict[TopicPartition, FetchPartition], version: int) -> Any:
        session_id, epoch, topics, forgotten = session.ask(requested, version)
        for topic in topics:
            for row in topic.partitions:
                row.partition_max_bytes = self._config["max.partition.fetch.bytes"]
        return m.FetchRequest(
            max_wait_ms=self._config["fetch.max.wait.ms"],
            min_bytes=self._config["fetch.min.bytes"],
            max_bytes=self._config["fetch.max.bytes"],
            isolation_level=int(self._committed_only),
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=self._config["client.rack"],
        )

    def _take(
        self,
        session: FetchSession,
        answer: Any,
        names: dict[Uuid, str],
        requested: dict[TopicPartition, FetchPartition],
        asked: dict[TopicPartition, tuple[PartitionState, int]],
        *,
        node: int,
    ) -> None:
        """Buffer the records of a response. names: topic id → name, if the response is by id. node: the broker's id."""
        arrived = False
        for topic in answer.responses:
            name = names.get(topic.topic_id) if topic.topic_id else topic.topic
            for row in topic.partitions:
                where = TopicPartition(name or "", row.partition_index)
                state = self._positions.get(where)
                # Skip rows that were requested before a seek. Also skip rows of partitions that are no longer assigned,
                # or that have been assigned again (they then have another state).
                if state is None or asked.get(where, (None, -1)) != (state, state.turn):
                    continue
                if row.error_code:
                    session.reset()
                    if state.near == node:
                        # Ask the leader: only the leader knows whether the offset is really out of range.
                        state.near = -1
                        state.not_before = self._loop.time() + self._backoff.next()
                        self._refresh()
                    else:
                        self._refused(state, row.error_code, requested[where].offset)
                    arrived = True
                    continue
                if row.preferred_read_replica not in (-1, node):
                    state.near = row.preferred_read_replica
                    state.near_until = self._loop.time() + self._config.seconds("metadata.max.age.ms")
                    continue
                state.high_watermark, state.log_start = row.high_watermark, row.log_start_offset
                if row.records:
                    arrived = self._decode(state, row) or arrived
        if arrived:
            self._arrived()

    def _decode(self, state: PartitionState, row: Any) -> bool:
        aborted = None
        if self._committed_only:
            aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()]
        self._metrics.add("bytes-consumed-total", len(row.records))
        decoded = self._decoder.decode(
            row.records,
            state.fetch_offset,
            topic=state.where.topic,
            topic_id=state.topic_id,
            partition=state.where.partition,
            aborted=aborted,
        )
        records, next_offset, error = decoded.records, decoded.next_offset, None
        if decoded.error is not None:
            error = KafkaError(
                getattr(decoded.error, "code", ErrorCode.INVALID_RECORD),
                f"cannot read {state.where}, offset {next_offset}: {decoded.error!r}; use seek() to skip it",
            )
            error.__cause__ = decoded.error
        state.fetch_offset = max(next_offset, state.fetch_offset)
        if records or error is not None or not state.chunks:
            state.chunks.append(Chunk(records, next_offset, error))
        return bool(records) or error is not None

    def _refused(self, state: PartitionState, code: int, offset: int) -> None:
        """Handle the error code of one partition."""
        now = self._loop.time()
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._policy == "none":
                state.chunks.append(Chunk([], offset, NoOffsetError(f"{state.where} has no offset {offset}")))
            else:
                log.info("%s has no offset %s: auto.offset.reset=%s", state.where, offset, self._policy)
                state.look_for(self._reset_spec())
        elif code in _IDENTITY or is_retriable(code):
            state.not_before = now + self._backoff.next()
            self._refresh()
        else:
            state.chunks.append(Chunk([], offset, broker_error(code, about=str(state.where))))

    def _reset_spec(self) -> OffsetSpec:
        return OffsetSpec.earliest() if self._policy == "earliest" else OffsetSpec.latest()

    def _recreated(self, change: TopicRecreation) -> None:
        """Drop the positions of a topic that was recreated: offsets of the old incarnation do not apply.

        Read the new incarnation from its start, even with `auto.offset.reset=latest`, because all of its records are
        newer than the records already read. With `none`, the next poll raises an error.
        """
        self._renewed[change.topic] = change
        touched = False
        for state in self._positions:
            if state.where.topic != change.topic or state.topic_id in (change.new,) or not state.topic_id:
                continue
            touched = True
            state.look_for(OffsetSpec.earliest())
            state.leader_epoch = -1
            if self._policy == "none":
                state.reset = None
                state.chunks.append(Chunk([], 0, TopicRecreatedError(change.topic, state.topic_id, change.new)))
            state.topic_id = change.new
        if touched:
            self._log_recreation(change)
            self._arrived()
            self._background.wake()

    def _log_recreation(self, change: TopicRecreation) -> None:
        if self._logged_ids.get(change.topic) != change.new:
            self._logged_ids[change.topic] = change.new
            log.info("Topic %s was deleted and created again: id %s, was %s", change.topic, change.new, change.old)
            self._tell_recreated(change)

    # Looking for positions ----------------------------------------------------------------------------------

    def start_at(self, state: PartitionState) -> None:
        """Determine the start of a partition without a committed offset, from `auto.offset.reset`. If its value is
        `none`, the next poll raises NoOffsetError.
        """
        renewed = self._renewed.get(state.where.topic)
        is_new = renewed is not None and renewed.new == state.topic_id
        if renewed is not None and is_new:
            # The group may have revoked the old partition before the topic was recreated.
            self._log_recreation(renewed)
        if self._policy == "none":
            error: KafkaError = NoOffsetError(f"{state.where} has no committed offset and auto.offset.reset=none")
            if renewed is not None and is_new:
                error = TopicRecreatedError(renewed.topic, renewed.old, renewed.new)
            state.chunks.append(Chunk([], 0, error))
        else:
            state.look_for(OffsetSpec.earliest() if is_new else self._reset_spec())
        self._background.wake()

    def _find(self) -> None:
        if self._finding is None or self._finding.done():
            self._finding = self._background.spawn(self._find_positions())

    async def _find_positions(self) -> None:
        cluster = self._network.cluster
        led = [state for state in self._positions if cluster.leader(state.where) is not None]
        looking = [state for state in led if state.reset is not None]
        trouble = await self._reset(looking)
        if trouble and len(looking) > 1:
            # Retry each partition separately, so that a partition that keeps failing does not block the others.
            trouble = [error for state in looking if state.reset for error in await self._reset([state])]
        for state in led:
            if state.validate and state.position is not None:
                try:
                    await self._compare(state)
                except (*LOST, KafkaError) as error:
                    trouble.append(error)
        if trouble:
            log.info("Offset lookup failed: %s", trouble[0])
            await asyncio.sleep(self._backoff.next())
            self._refresh()
        self._arrived()
        self._background.wake()

    async def _reset(self, states: Sequence[PartitionState]) -> list[Exception]:
        """Look up the positions of these partitions; return retriable errors."""
        asked = {state.where: (state, state.reset, state.turn) for state in states}
        try:
            found = await self.lookup.once({where: spec for where, (_, spec, _) in asked.items() if spec})
        except (*LOST, KafkaError) as error:
            if len(states) == 1 and isinstance(error, KafkaError) and not is_retriable(error.code):
                states[0].reset = None
                states[0].chunks.append(Chunk([], 0, error))
                return []
            return [error]
        for where, result in found.items():
            state, spec, turn = asked[where]
            if state.turn == turn and state.reset == spec:
                state.seek(result.offset, -1)
        return []

    async def _compare(self, state: PartitionState) -> None:
        """Check whether the new leader has the records up to the position (KIP-320)."""
        position, turn, epoch = state.position, state.turn, state.epoch
        info = self._network.cluster.partition(state.where)
        if info is None or position is None or not state.validate:
            return
        connection = await self._network.connection(info.leader)
        if not connection.supports(m.OffsetForLeaderEpochRequest, 2):
            state.validate = False
            return
        answer = await connection.request(_epoch_question(state, info.leader_epoch, by_id=heeds_ids(connection)))
        row = answer.topics[0].partitions[0]
        if row.error_code:
            raise broker_error(row.error_code, about=str(state.where))
        if state.turn != turn:
            return
        state.validate = False
        buffered_end = state.fetch_offset
        if row.end_offset < 0 or row.leader_epoch < 0:
            state.look_for(self._reset_spec() if self._policy != "none" else OffsetSpec.earliest())
        elif row.end_offset < buffered_end or row.leader_epoch < epoch:
            end = min(row.end_offset, position)
            log.warning("%s was truncated at offset %s, position was %s", state.where, row.end_offset, position)
            state.seek(end, row.leader_epoch)
            if self._policy == "none" and end < position:
                text = (
                    f"{state.where} was truncated: offset {position} of leader epoch {epoch} no longer exists, "
                    f"the epoch ends at {end}"
                )
                state.chunks.append(Chunk([], end, KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)))

    # Metadata -----------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._background.spawn(self._look_around())

    async def _look_around(self) -> None:
        try:
            await self._network.refresh({state.where.topic for state in self._positions})
        except (*LOST, KafkaError) as error:
            log.info("Metadata update failed: %s", error)
            self._note(error)
            await asyncio.sleep(self._backoff.next())
        self._background.wake()


def _epoch_question(state: PartitionState, leader_epoch: int, *, by_id: bool) -> Any:
    return m.OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(
                topic=state.where.topic,
                topic_id=state.topic_id if by_id else Uuid.ZERO,
                partitions=[
                    m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(
                        partition=state.where.partition, current_leader_epoch=leader_epoch, leader_epoch=state.epoch
                    )
                ],
            )
        ],
    )
