"""KIP-848 group membership (`group.protocol=consumer`): the coordinator assigns partitions in heartbeat responses, and
no member waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from pybroker.client.client_errors import KafkaError, UnsupportedVersionError, broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.network import LOST, Network
from pybroker.client.consumer.group.group_membership import MOVED, Callbacks, GroupMembership, GroupMetadata
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2
"""Member epochs in requests: to join, to leave, and to leave for a while. With the last, a static member keeps its
partitions until it returns or its session ends."""
_REGEX_FROM = 1
"""First version in which the coordinator matches regular expressions."""
_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

Partition = tuple[Uuid, int]
"""(topic id, index). The id distinguishes the partitions of a recreated topic."""


class ConsumerProtocolMember(GroupMembership):
    """A KIP-848 member. A background task sends heartbeats; polls apply the target assignment in steps.

    Each step commits offsets, then revokes partitions (calls the listener, then drops them) before it takes new
    partitions. The next heartbeat reports the owned partitions.
    """

    def __init__(self, config: ClientConfig, network: Network, metrics: ClientMetrics, callbacks: Callbacks) -> None:
        super().__init__(config, network, metrics, callbacks)
        self._assignor: str | None = config["group.remote.assignor"]
        self._member_id = str(uuid.uuid4())
        self._epoch = _JOIN
        self._asked_in = False
        """True if the coordinator may have this member, because the member has sent a join that was not refused."""
        self._topics: frozenset[str] | None = None
        self._regex: str | None = None
        self._owned: dict[Partition, TopicPartition] = {}
        self._target: frozenset[Partition] | None = None
        # Fields that the coordinator has received. None: the next heartbeat must have all fields.
        self._said: dict[str, Any] | None = None
        # Number of the membership. Work that began in one membership must not complete in the next membership.
        self._round = 0
        self._lost = False
        self._stopped = False
        self._fatal: Exception | None = None
        self._create_due = False
        self._look_at = 0.0
        self._due: float | None = None
        self._hurry = asyncio.Event()
        self._beating = False
        self._backoff = Backoff(config.seconds("retry.backoff.ms"), config.seconds("retry.backoff.max.ms"))
        self._heart = asyncio.create_task(self._live())

    @property
    def metadata(self) -> GroupMetadata:
        """This member's current identity; the generation is its member epoch."""
        if self._epoch <= 0:
            return GroupMetadata(self.group_id, -1, "", self._instance_id)
        return GroupMetadata(self.group_id, self._epoch, self._member_id, self._instance_id)

    @property
    def reads_as(self) -> tuple[str | None, int]:
        """Member id and member epoch for OffsetFetch; (None, -1) if this consumer is not a member."""
        return (self._member_id, self._epoch) if self._epoch > 0 else (None, -1)

    @property
    def must_rejoin(self) -> bool:
        """Whether the next poll has work to do for the group."""
        return self._lost or self._fatal is not None or self._target is None or self._target != self._owned.keys()

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions. If it does, only members may commit."""
        return self._topics is not None

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this member owns."""
        return frozenset(self._owned.values())

    def subscribe(self, topics: frozenset[str], regex: str | None) -> None:
        """Set the topics to read. A coordinator that supports regular expressions matches the expression itself."""
        if topics != self._topics or regex != self._regex:
            self._create_due = topics != self._topics
            self._topics, self._regex = topics, regex
            self._heartbeat_now()

    def request_rejoin(self, why: str) -> None:
        """Send a heartbeat now. The coordinator notices changes of topics by itself, but the heartbeat brings the new
        assignment sooner.
        """
        log.info("Group %s: requesting the assignment, %s", self.group_id, why)
        self._heartbeat_now()

    def notice_topics(self) -> None:
        """Do nothing: the coordinator watches the topics."""

    def identity(self, who: GroupMetadata, partitions: frozenset[TopicPartition]) -> GroupMetadata | None:
        """Return this member's identity with the current epoch. The epoch may grow while the member keeps the
        partitions.
        """
        if not self.is_subscribed:
            return who
        now = self.metadata
        same = now.generation > 0 and now.member_id == who.member_id
        return now if same and partitions <= self.owned else None

    def answered(self, code: int) -> None:
        """Handle the error code of a commit. Find a new coordinator, or send a heartbeat now to get the new epoch."""
        if code in MOVED:
            self._coordinator = None
        elif code in (*_OUT, ErrorCode.STALE_MEMBER_EPOCH) and self.is_subscribed:
            self._heartbeat_now()

    # Polls --------------------------------------------------------------------------------------------------

    async def ensure_active(self, give_up: float) -> None:
        """Apply the coordinator's assignment without waiting for it: a heartbeat response wakes the poll.

        If a poll is cancelled in a listener, the next poll repeats the step. Raises an error that a retry cannot fix;
        even then, the next call tries again.
        """
        self.polled()
        if self._lost:
            await self._lose()
        if self._fatal is not None:
            failure, self._fatal = self._fatal, None
            if self._epoch == _JOIN:
                self._heartbeat_now()
            raise failure
        if self._create_due:
            await self._look(self._topics or frozenset())
            self._create_due = False
        if self._due is None and not self._beating:
            self._heartbeat_now()
        while self._target is not None and self._target != self._owned.keys():
            if not await self._reconcile(self._target) or self._loop.time() >= give_up:
                break
        if self._lost:
            await self._lose()
        self.polled()

    async def _look(self, topics: frozenset[str] | None) -> None:
        """Refresh the metadata of these topics; None: of all."""
        try:
            await self._network.refresh(topics, create=self._config["allow.auto.create.topics"])
        except LOST as error:
            log.info("Group %s: %s", self.group_id, error)

    async def _lose(self) -> None:
        owned, self._owned = frozenset(self._owned.values()), {}
        self._lost = False
        self._heartbeat_now()
        if owned:
            await self._callbacks.lose(owned)

    async def _reconcile(self, target: frozenset[Partition]) -> bool:
        """Take one step towards `target`. If the metadata has no name for some topics, refresh it and return False."""
        this = self._round
        gone = self._owned.keys() - target
        if gone:
            await self._give_up({each: self._owned[each] for each in gone})
            if self._round != this:
                return True
        named = await self._named(target - self._owned.keys())
        if self._round != this:
            return True
        added = {each: where for each, where in named.items() if self._target is not None and each in self._target}
        if added or not gone:
            await self._take(added)
        self._heartbeat_now()
        return self._target != target or target == self._owned.keys()

    async def _give_up(self, gone: dict[Partition, TopicPartition]) -> None:
        """Commit, run the listener, then drop partitions. If the call is cancelled in between, the member still owns
        them."""
        try:
            await self._callbacks.revoke(frozenset(gone.values()))
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._drop(gone)
            raise
        self._drop(gone)

    def _drop(self, gone: dict[Partition, TopicPartition]) -> None:
        self._owned = {each: where for each, where in self._owned.items() if each not in gone}

    async def _take(self, added: dict[Partition, TopicPartition]) -> None:
        if not added:
            return
        this, owned = self._round, {**self._owned, **added}
        self._metrics.add("rebalance-total")
        log.info("Group %s, epoch %s: %s partitions, %s new", self.group_id, self._epoch, len(owned), len(added))
        try:
            await self._callbacks.assign(frozenset(owned.values()), frozenset(added.values()))
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._owned = owned
            raise
        self._owned = owned
        if self._round != this:
            self._lost = True

    async def _named(self, partitions: set[Partition] | frozenset[Partition]) -> dict[Partition, TopicPartition]:
        """Return those partitions whose topic id has a name in the metadata."""
        if not partitions:
            return {}
        cluster = self._network.cluster
        unknown = {topic_id for topic_id, _ in partitions if cluster.topic_name(topic_id) is None}
        if unknown and self._loop.time() >= self._look_at:
            self._look_at = self._loop.time() + self._backoff.next()
            await self._look(self._topics if self._regex is None else None)
            cluster = self._network.cluster
        names = {topic_id: cluster.topic_name(topic_id) for topic_id, _ in partitions}
        return {each: TopicPartition(name, each[1]) for each in partitions if (name := names[each[0]]) is not None}

    # Heartbeats ---------------------------------------------------------------------------------------------

    def _heartbeat_now(self) -> None:
        self._hurry.set()

    async def _live(self) -> None:
        """Send heartbeats while the caller polls."""
        while True:
            try:
                async with asyncio.timeout_at(self._due):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()
            self._due = None
            if self._topics is None or self._lost or self._fatal is not None or self._stopped:
                continue
            self._beating = True
            try:
                await self._heartbeat()
            # The next poll raises the error: without heartbeats the group drops this member.
            except Exception as error:
                self._fail(error)
            finally:
                self._beating = False

    async def _heartbeat(self) -> None:
        if self._epoch > 0 and self._loop.time() - self._polled_at > self._poll_interval_ms / 1000:
            log.warning("Group %s: no poll for max.poll.interval.ms=%s, leaving", self.group_id, self._poll_interval_ms)
            await self.leave()
            self._forget()
            return
        this = self._round
        try:
            fields, changes, version = await self._changed_fields()
            self._asked_in = True
            answer = await self.ask(
                m.ConsumerGroupHeartbeatRequest(
                    group_id=self.group_id, member_id=self._member_id, member_epoch=self._epoch, **changes
                ),
                version,
            )
        except LOST as error:
            log.info("Group %s: %s", self.group_id, error)
            self._again()
            return
        except UnsupportedVersionError:
            raise
        except KafkaError as error:
            if not is_retriable(error.code):
                raise
            self._again()
            return
        if this != self._round:
            return  # The response belongs to an earlier membership.
        if answer.error_code:
            self._handle_error(answer.error_code, answer.error_message)
            return
        self._backoff.reset()
        self._said, self._epoch = fields, answer.member_epoch
        self._due = self._loop.time() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, index) for topic in answer.assignment.topic_partitions for index in topic.partitions
            )
        elif self._target is None:
            self._target = frozenset(self._owned)
        if self.must_rejoin:
            self._callbacks.wake()

    async def _changed_fields(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Return (this member's fields, the fields that changed since the last heartbeat, the request version).

        After a join or a lost heartbeat all fields count as changed.
        """
        connection = await self._connection()
        if not connection.supports(m.ConsumerGroupHeartbeatRequest):
            raise UnsupportedVersionError(
                "group.protocol=consumer: the broker does not support consumer groups (KIP-848, its feature "
                "group.version); use group.protocol=classic, which every broker supports"
            )
        version = connection.highest(m.ConsumerGroupHeartbeatRequest)
        by_regex = self._regex is not None and version >= _REGEX_FROM
        owned: dict[Uuid, list[int]] = {}
        for topic_id, index in sorted(self._owned, key=lambda each: (str(each[0]), each[1])):
            owned.setdefault(topic_id, []).append(index)
        fields: dict[str, Any] = {
            "instance_id": self._instance_id,
            "rack_id": self._config["client.rack"] or None,
            "rebalance_timeout_ms": self._poll_interval_ms,
            "subscribed_topic_names": [] if by_regex else sorted(self._topics or ()),
            "server_assignor": self._assignor,
            "topic_partitions": [
                m.ConsumerGroupHeartbeatRequest_TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in owned.items()
            ],
        }
        if version >= _REGEX_FROM:
            fields["subscribed_topic_regex"] = self._regex if by_regex else ""
        known = self._said
        if known is None:
            first = {**fields, "subscribed_topic_regex": self._regex} if by_regex else _without_regex(fields)
            return fields, first, version
        changes = {name: value for name, value in fields.items() if name not in known or known[name] != value}
        if self._instance_id is not None:
            changes["instance_id"] = self._instance_id
        return fields, changes, version

    def _again(self) -> None:
        """Send a full heartbeat after a pause, because the coordinator was unreachable or did not answer."""
        self._coordinator = None
        self._said = None
        self._due = self._loop.time() + self._backoff.next()

    def _handle_error(self, code: int, message: str | None) -> None:
        """Handle an error in a heartbeat response."""
        if code in _OUT:
            log.info("Group %s: %s, rejoining", self.group_id, ErrorCode(code).name)
            self._metrics.add("failed-rebalance-total")
            self._forget()
        elif code in MOVED or is_retriable(code):
            self._again()
        else:
            self._metrics.add("failed-rebalance-total")
            words = " ".join(
                (message or "the coordinator rejected the heartbeat").split()
            )  # The broker's message may span several lines.
            self._fail(broker_error(code, f"{self._setting(code)}: {words}"))

    def _setting(self, code: int) -> str:
        """Return the setting that an error is about, with its value."""
        group = f"group.protocol=consumer, group.id={self.group_id}"
        return {
            ErrorCode.GROUP_MAX_SIZE_REACHED: f"group.id={self.group_id}",
            ErrorCode.UNSUPPORTED_ASSIGNOR: f"group.remote.assignor={self._assignor}",
            ErrorCode.INVALID_REGULAR_EXPRESSION: f"subscribe({self._regex!r}), group.id={self.group_id}",
            ErrorCode.UNRELEASED_INSTANCE_ID: f"group.instance.id={self._instance_id}",
            ErrorCode.FENCED_INSTANCE_ID: f"group.instance.id={self._instance_id}",
        }.get(ErrorCode(code), group)

    def _fail(self, error: Exception) -> None:
        """Make the next poll raise `error`. Until then no heartbeats are sent, so other members get the partitions."""
        self._fatal = error
        self._forget()

    def _forget(self) -> None:
        """Drop the membership; the next poll calls `on_partitions_lost`, then joins again."""
        self._round += 1
        self._epoch, self._asked_in = _JOIN, False
        self._target = self._said = None
        self._lost = True
        self._callbacks.wake()

    # The end ------------------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Leave the group; static members keep their partitions until they return or their session ends. If a join is
        in flight, the request follows it on the same connection.
        """
        if not self._asked_in:
            return
        static = self._instance_id is not None
        try:
            answer = await self.ask(
                m.ConsumerGroupHeartbeatRequest(
                    group_id=self.group_id,
                    member_id=self._member_id,
                    member_epoch=_LEAVE_FOR_A_WHILE if static else _LEAVE,
                    instance_id=self._instance_id,
                )
            )
            if answer.error_code:
                log.info("Group %s: leave failed: %s", self.group_id, broker_error(answer.error_code))
        except (*LOST, KafkaError) as error:
            log.info("Group %s: leave request failed: %s", self.group_id, error)

    async def stop(self) -> None:
        """Stop heartbeats. Called before `leave`, or instead of it."""
        self._stopped = True
        self._heart.cancel()
        await asyncio.gather(self._heart, return_exceptions=True)


def _without_regex(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "subscribed_topic_regex"}
