"""Classic group membership: join, sync, heartbeat, leave (KIP-62, KIP-345, KIP-429)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from pybroker.client.client_errors import KafkaError, broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import LOST, Network
from pybroker.client.consumer.group.group_membership import LANE, MOVED, Callbacks, GroupMembership, GroupMetadata
from pybroker.client.consumer.group.partition_assignors import Assignor, assignors
from pybroker.client.consumer.group.protocol_bytes import (
    ProtocolSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_JOIN_MARGIN_S = 10.0
_LEAVING = "leaving group"
"""The lane on which a LeaveGroup is sent while a join is in flight."""
_ID_S = 2.0
"""Seconds that a leaving member waits for the member id in the response to its first JoinGroup. Brokers from 2.2 on
send the id immediately (KIP-394); earlier brokers send it with the generation.
"""
_FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class ClassicProtocolMember(GroupMembership):
    """Membership by the classic protocol: all members rejoin together, and the group leader assigns partitions."""

    def __init__(self, config: ClientConfig, network: Network, metrics: ClientMetrics, callbacks: Callbacks) -> None:
        super().__init__(config, network, metrics, callbacks)
        self._assignors: list[Assignor] = assignors(config["partition.assignment.strategy"])
        self._session_ms: int = config["session.timeout.ms"]
        self._member_id = ""
        self._generation = -1
        self._protocol: Assignor | None = None
        self._owned: frozenset[TopicPartition] = frozenset()
        self._topics: frozenset[str] = frozenset()
        self._seen: dict[str, tuple[object, int]] = {}
        self._rejoin = True
        self._exchange: asyncio.Task[frozenset[TopicPartition]] | None = None
        self._join: asyncio.Task[Any] | None = None
        """The JoinGroup in flight. If the exchange is cancelled, the request continues in this task."""
        self._lost = False
        self._left = False
        self._fatal: Exception | None = None
        self._backoff = Backoff(config.seconds("retry.backoff.ms"), config.seconds("retry.backoff.max.ms"))
        self._heart = asyncio.create_task(self._heartbeat())

    @property
    def metadata(self) -> GroupMetadata:
        """This member's current identity."""
        return GroupMetadata(self.group_id, self._generation, self._member_id, self._instance_id)

    @property
    def must_rejoin(self) -> bool:
        """Whether the next poll has work to do for the group."""
        return self._rejoin or self._exchange is not None

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions. If it does, only members may commit."""
        return bool(self._topics)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this member owns."""
        return self._owned

    def subscribe(self, topics: frozenset[str], regex: str | None) -> None:
        """Set the topics to read. The client matches patterns."""
        if topics != self._topics:
            self._topics = topics
            self.request_rejoin("the subscription changed")

    def request_rejoin(self, why: str) -> None:
        """Make the next poll join again."""
        if not self._rejoin:
            log.info("Group %s: rejoining, %s", self.group_id, why)
        self._rejoin = True
        self._callbacks.wake()

    def notice_topics(self) -> None:
        """Rejoin if the metadata shows that a subscribed topic has more partitions or is another incarnation."""
        if self._rejoin or not self._seen:
            return
        if self._snapshot() != self._seen:
            self.request_rejoin("the partitions of a subscribed topic have changed")

    def _snapshot(self) -> dict[str, tuple[object, int]]:
        cluster = self._network.cluster
        return {topic: (cluster.topic_id(topic), len(cluster.partitions(topic))) for topic in self._topics}

    # Joining ------------------------------------------------------------------------------------------------

    async def ensure_active(self, give_up: float) -> None:
        """Join the group if a join is due, then apply the assignment.

        Waits for the coordinator and the other members until `give_up` (loop time). If a call is cancelled, the next
        call continues; if a listener was interrupted, the next call repeats that step. Raises an error that a retry
        cannot fix.
        """
        self.polled()
        if self._fatal is not None:
            failure, self._fatal = self._fatal, None
            raise failure
        if self._lost:
            await self._lose()
        while self.must_rejoin and not self._left:
            try:
                if self._exchange is None:
                    self._exchange = asyncio.create_task(self._join_and_sync(await self._get_ready()))
                    self._exchange.add_done_callback(lambda _: self._callbacks.wake())
                await asyncio.wait((self._exchange,), timeout=max(0.0, give_up - self._loop.time()))
                if not self._exchange.done() or self._left:
                    return
                await self._apply(self._exchange)
                self._backoff.reset()
            except LOST as error:
                log.info("Group %s: %s", self.group_id, error)
                self._coordinator = None
                await self._pause(give_up)
            except KafkaError as error:
                self._metrics.add("failed-rebalance-total")
                await self._handle_error(error, give_up)
            self.polled()
            if self._exchange is None and self._rejoin and self._loop.time() >= give_up:
                return

    async def _apply(self, exchange: asyncio.Task[frozenset[TopicPartition]]) -> None:
        """Apply the assignment. If the poll is cancelled, the next poll applies it."""
        try:
            await self._assigned(exchange.result())
        except asyncio.CancelledError:
            if exchange.cancelled():
                self._exchange = None
            raise
        except BaseException:
            self._exchange = None
            raise
        self._exchange = None

    async def _pause(self, give_up: float) -> None:
        await asyncio.sleep(max(0.0, min(self._backoff.next(), give_up - self._loop.time())))

    async def _lose(self) -> None:
        self._lost = False
        owned, self._owned = self._owned, frozenset()
        if owned:
            await self._callbacks.lose(owned)

    async def _handle_error(self, error: KafkaError, give_up: float) -> None:
        """Handle an error of a join. Raise it if another join would fail too."""
        code = error.code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            return
        if code in _FORGOTTEN:
            self._forget()
            await self._lose()
        elif code in MOVED:
            self._coordinator = None
        elif code != ErrorCode.REBALANCE_IN_PROGRESS and not is_retriable(code):
            raise error
        await self._pause(give_up)

    def _forget(self) -> None:
        self._generation = -1
        self._member_id = ""
        self._rejoin = True
        self._lost = bool(self._owned)
        if self._exchange is not None and self._exchange.done():
            self._exchange = None  # The member's assignment is no longer valid.

    async def _get_ready(self) -> BrokerConnection:
        """Prepare a join inside a poll: if the member is eager, it first revokes its partitions."""
        connection = await self._connection()
        await self._network.refresh(self._topics, create=self._config["allow.auto.create.topics"])
        cooperative = all(each.cooperative for each in self._assignors)
        if not cooperative and self._owned:
            await self._revoke(self._owned)
        self._seen = self._snapshot()
        return connection

    async def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Commit, run the listener, then drop partitions. If the call is cancelled in between, the member still owns
        them."""
        try:
            await self._callbacks.revoke(partitions)
        except Exception:
            self._owned -= partitions
            raise
        self._owned -= partitions

    async def _join_and_sync(self, connection: BrokerConnection) -> frozenset[TopicPartition]:
        """Join and sync; return the assignment. The exchange continues between polls, because it waits for all other
        members."""
        subscription = ProtocolSubscription(
            tuple(self._topics), tuple(sorted(self._owned)), self._generation if self._owned else -1
        )
        metadata = write_subscription(subscription)
        request = m.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[
                m.JoinGroupRequest_JoinGroupRequestProtocol(name=each.name, metadata=metadata)
                for each in self._assignors
            ],
        )
        # The request is sent and cannot change any more. If the subscription changes before the response, the flag is
        # set again.
        self._rejoin = False
        try:
            limit = self._poll_interval_ms / 1000 + _JOIN_MARGIN_S
            self._join = asyncio.create_task(connection.request(request, timeout_s=limit))
            self._join.add_done_callback(lambda done: done.cancelled() or done.exception())
            joined = await asyncio.shield(self._join)
            if joined.error_code:
                if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                    self._member_id = joined.member_id
                raise broker_error(joined.error_code, about=f"join of group {self.group_id}")
            self._member_id, self._generation = joined.member_id, joined.generation_id
            self._protocol = next((each for each in self._assignors if each.name == joined.protocol_name), None)
            if self._protocol is None:
                raise broker_error(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"the group uses {joined.protocol_name}, which this member does not support",
                )
            leads = joined.leader == joined.member_id and not joined.skip_assignment
            assignments = await self._assign(joined) if leads else {}
            synced = await connection.request(self._sync_request(joined, assignments), timeout_s=limit)
            if synced.error_code:
                raise broker_error(synced.error_code, about=f"sync of group {self.group_id}")
        except BaseException:
            self._rejoin = True
            raise
        return frozenset(read_assignment(synced.assignment))

    def _sync_request(self, joined: Any, assignments: Mapping[str, bytes]) -> Any:
        return m.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=[
                m.SyncGroupRequest_SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in assignments.items()
            ],
        )

    async def _assign(self, joined: Any) -> dict[str, bytes]:
        """Compute the assignment as the group leader."""
        assert self._protocol is not None, "chosen by the coordinator from this member's assignors"
        members = {row.member_id: read_subscription(row.metadata) for row in joined.members}
        topics = {topic for member in members.values() for topic in member.topics}
        cluster = await self._network.refresh(topics)
        self._seen = self._snapshot()
        counts = {topic: len(cluster.partitions(topic)) for topic in topics}
        assignment = self._protocol.assign(counts, members)
        return {member: write_assignment(assignment.get(member, ())) for member in members}

    async def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._metrics.add("rebalance-total")
        revoked, added = self._owned - partitions, partitions - self._owned
        log.info(
            "Group %s, generation %s: %s partitions, %s new",
            self.group_id,
            self._generation,
            len(partitions),
            len(added),
        )
        if revoked:
            # Cooperative: the next rebalance gives the revoked partitions to another member.
            self.request_rejoin("partitions were revoked")
            await self._revoke(revoked)
        try:
            await self._callbacks.assign(partitions, added)
        except Exception:
            self._owned = partitions
            raise
        self._owned = partitions

    # Beats and the end ---------------------------------------------------------------------------------------

    def identity(self, who: GroupMetadata, partitions: frozenset[TopicPartition]) -> GroupMetadata | None:
        """Return `who` while its generation lasts, else None, because in a later generation any partition may belong to
        another member."""
        now = self.metadata
        return who if (now.generation, now.member_id) == (who.generation, who.member_id) else None

    def answered(self, code: int) -> None:
        """Handle the error code of a commit: new coordinator, lost membership, or rebalance."""
        if code in MOVED:
            self._coordinator = None
        elif code in _FORGOTTEN and self._generation >= 0:
            self._forget()
            self._callbacks.wake()
        elif code == ErrorCode.REBALANCE_IN_PROGRESS and not self._talking:
            self.request_rejoin("the group is rebalancing")

    async def _heartbeat(self) -> None:
        """Send heartbeats while the caller polls."""
        while True:
            await asyncio.sleep(self._config.seconds("heartbeat.interval.ms"))
            if self._generation < 0 or self._rejoin or self._left or self._talking:
                continue
            try:
                await self._heartbeat_once()
            # The next poll raises the error: without heartbeats the group drops this member.
            except Exception as error:
                self._fatal = error
                self._callbacks.wake()

    async def _heartbeat_once(self) -> None:
        generation = self._generation
        if self._loop.time() - self._polled_at > self._poll_interval_ms / 1000:
            log.warning("Group %s: no poll for max.poll.interval.ms=%s, leaving", self.group_id, self._poll_interval_ms)
            await self.leave()
            self._forget()
            return
        try:
            answer = await self.ask(
                m.HeartbeatRequest(
                    group_id=self.group_id,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._instance_id,
                )
            )
        except LOST as error:
            log.info("Group %s: %s", self.group_id, error)
            self._coordinator = None
            return
        except KafkaError as error:
            if not is_retriable(error.code):
                self._fatal = error
            self._coordinator = None
            return
        code = answer.error_code
        if self._rejoin or self._talking or generation != self._generation:
            return  # The response belongs to an earlier generation.
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED):
            self._fatal = broker_error(code, about=f"group {self.group_id}")
            self._forget()
            self._callbacks.wake()
        elif code:
            self.answered(code)

    @property
    def _talking(self) -> bool:
        return self._exchange is not None and not self._exchange.done()

    async def leave(self) -> None:
        """Leave the group, so that the other members need not wait for the session timeout. Static members stay
        (KIP-345).
        """
        joining = self._join if self._join is not None and not self._join.done() else None
        if self._instance_id is not None:
            return
        if joining is not None and not self._member_id:
            await asyncio.wait((joining,), timeout=_ID_S)
            if joining.done() and not joining.cancelled() and joining.exception() is None:
                self._member_id = joining.result().member_id
        if not self._member_id:
            return
        request = m.LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self._member_id,
            members=[m.LeaveGroupRequest_MemberIdentity(member_id=self._member_id)],
        )
        try:
            # A pending JoinGroup would block the request on the same connection, so use another connection.
            await self.ask(request, lane=LANE if joining is None or joining.done() else _LEAVING)
        except (*LOST, KafkaError) as error:
            log.info("Group %s: leave request failed: %s", self.group_id, error)

    async def stop(self) -> None:
        """Stop heartbeats and joins. Called before LeaveGroup, or instead of it."""
        self._left = True
        tasks = [task for task in (self._heart, self._exchange) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
