"""Membership in a consumer group by KIP-848's protocol (`group.protocol=consumer`): the coordinator assigns, heartbeats
carry everything, and no member waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from pybroker.client.cluster import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.network import LOST, Network
from pybroker.client.consumer.group.membership import MOVED, Callbacks, GroupMetadata, Membership
from pybroker.client.errors import KafkaError, UnsupportedVersionError, broker_error, is_retriable
from pybroker.client.plugins.metrics import ClientMetrics
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_JOIN, _LEAVE, _LEAVE_FOR_A_WHILE = 0, -1, -2
"""Member epochs that are wishes: to be let in, to be out, and (static members) to be away until the session ends."""
_REGEX_FROM = 1
"""From this version on the coordinator matches regular expressions."""
_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

Partition = tuple[Uuid, int]
"""By the id of its topic: one that is created again is another."""


class NewerMember(Membership):
    """A heart of its own talks to the coordinator; polls make true what it has heard, one step after the other: what is
    given up is committed and told, then dropped, then what is new is taken, and the next heartbeat says what is owned.
    """

    def __init__(self, config: ClientConfig, network: Network, metrics: ClientMetrics, callbacks: Callbacks) -> None:
        super().__init__(config, network, metrics, callbacks)
        self._assignor: str | None = config["group.remote.assignor"]
        self._member_id = str(uuid.uuid4())
        self._epoch = _JOIN
        self._asked_in = False
        """The coordinator may have let us in: a join was sent, and not refused."""
        self._topics: frozenset[str] | None = None
        self._regex: str | None = None
        self._owned: dict[Partition, TopicPartition] = {}
        self._target: frozenset[Partition] | None = None
        # What the coordinator knows from us; None: nothing, so that all is said.
        self._said: dict[str, Any] | None = None
        # Counts memberships: what was begun in one is not finished in the next.
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
        """This member's identity now; the generation is its member epoch."""
        if self._epoch <= 0:
            return GroupMetadata(self.group_id, -1, "", self._instance_id)
        return GroupMetadata(self.group_id, self._epoch, self._member_id, self._instance_id)

    @property
    def reads_as(self) -> tuple[str | None, int]:
        """Member id and member epoch, while it is a member."""
        return (self._member_id, self._epoch) if self._epoch > 0 else (None, -1)

    @property
    def must_rejoin(self) -> bool:
        """Whether the next poll has something to do for the group."""
        return self._lost or self._fatal is not None or self._target is None or self._target != self._owned.keys()

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions: then only members may commit."""
        return self._topics is not None

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are this member's now."""
        return frozenset(self._owned.values())

    def subscribe(self, topics: frozenset[str], regex: str | None) -> None:
        """Sets the topics to read; a regular expression is the coordinator's to match, if it can."""
        if topics != self._topics or regex != self._regex:
            self._create_due = topics != self._topics
            self._topics, self._regex = topics, regex
            self._beat_now()

    def request_rejoin(self, why: str) -> None:
        """The coordinator sees changes of topics itself; the next heartbeat brings them sooner."""
        log.info("Group %s: asking for the assignment, %s", self.group_id, why)
        self._beat_now()

    def notice_topics(self) -> None:
        """Nothing: the coordinator watches the topics."""

    def identity(self, who: GroupMetadata, partitions: frozenset[TopicPartition]) -> GroupMetadata | None:
        """With the epoch of now: it may rise while the partitions stay ours."""
        if not self.is_subscribed:
            return who
        now = self.metadata
        same = now.generation > 0 and now.member_id == who.member_id
        return now if same and partitions <= self.owned else None

    def answered(self, code: int) -> None:
        """What the error code of a commit means for the membership: another coordinator, or an epoch that the next
        heartbeat tells.
        """
        if code in MOVED:
            self._coordinator = None
        elif code in (*_OUT, ErrorCode.STALE_MEMBER_EPOCH) and self.is_subscribed:
            self._beat_now()

    # Polls --------------------------------------------------------------------------------------------------

    async def ensure_active(self, give_up: float) -> None:
        """Makes true what the coordinator has assigned. Does not wait for it: its answer wakes the poll. A poll that is
        cancelled while a listener waits leaves the step to the next one. Raises errors that another attempt does not
        mend; the next call makes one all the same.
        """
        self.polled()
        if self._lost:
            await self._lose()
        if self._fatal is not None:
            failure, self._fatal = self._fatal, None
            if self._epoch == _JOIN:
                self._beat_now()
            raise failure
        if self._create_due:
            await self._look(self._topics or frozenset())
            self._create_due = False
        if self._due is None and not self._beating:
            self._beat_now()
        while self._target is not None and self._target != self._owned.keys():
            if not await self._reconcile(self._target) or self._loop.time() >= give_up:
                break
        if self._lost:
            await self._lose()
        self.polled()

    async def _look(self, topics: frozenset[str] | None) -> None:
        """Has the metadata know these topics; None: all."""
        try:
            await self._network.refresh(topics, create=self._config["allow.auto.create.topics"])
        except LOST as error:
            log.info("Group %s: %s", self.group_id, error)

    async def _lose(self) -> None:
        owned, self._owned = frozenset(self._owned.values()), {}
        self._lost = False
        self._beat_now()
        if owned:
            await self._callbacks.lose(owned)

    async def _reconcile(self, target: frozenset[Partition]) -> bool:
        """One step towards `target`. False: some of its topics are not known by name yet; they are asked for again."""
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
        self._beat_now()
        return self._target != target or target == self._owned.keys()

    async def _give_up(self, gone: dict[Partition, TopicPartition]) -> None:
        """Commits, tells, drops. Cancelled in between, they are still ours to give up."""
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
        """Those whose topic the metadata know by its id."""
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

    def _beat_now(self) -> None:
        self._hurry.set()

    async def _live(self) -> None:
        """Beats, for as long as the caller polls."""
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
                await self._beat()
            except Exception as error:  # the next poll raises it: without a beat the group forgets us
                self._fail(error)
            finally:
                self._beating = False

    async def _beat(self) -> None:
        if self._epoch > 0 and self._loop.time() - self._polled_at > self._poll_interval_ms / 1000:
            log.warning("Group %s: no poll for max.poll.interval.ms=%s, leaving", self.group_id, self._poll_interval_ms)
            await self.leave()
            self._forget()
            return
        this = self._round
        try:
            said, changes, version = await self._news()
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
            return  # said of what is over
        if answer.error_code:
            self._judge(answer.error_code, answer.error_message)
            return
        self._backoff.reset()
        self._said, self._epoch = said, answer.member_epoch
        self._due = self._loop.time() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, index) for topic in answer.assignment.topic_partitions for index in topic.partitions
            )
        elif self._target is None:
            self._target = frozenset(self._owned)
        if self.must_rejoin:
            self._callbacks.wake()

    async def _news(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """What is true of this member; what of it the coordinator does not know; the version to say it in. A member
        that joins, or whose last heartbeat was lost, says all.
        """
        connection = await self._connection()
        if not connection.supports(m.ConsumerGroupHeartbeatRequest):
            raise UnsupportedVersionError(
                "group.protocol=consumer: the broker does not serve groups of KIP-848 (its feature group.version); "
                "group.protocol=classic works with every broker"
            )
        version = connection.highest(m.ConsumerGroupHeartbeatRequest)
        by_regex = self._regex is not None and version >= _REGEX_FROM
        owned: dict[Uuid, list[int]] = {}
        for topic_id, index in sorted(self._owned, key=lambda each: (str(each[0]), each[1])):
            owned.setdefault(topic_id, []).append(index)
        said: dict[str, Any] = {
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
            said["subscribed_topic_regex"] = self._regex if by_regex else ""
        known = self._said
        if known is None:
            return said, {**said, "subscribed_topic_regex": self._regex} if by_regex else _without_regex(said), version
        changes = {name: value for name, value in said.items() if name not in known or known[name] != value}
        if self._instance_id is not None:
            changes["instance_id"] = self._instance_id
        return said, changes, version

    def _again(self) -> None:
        """The coordinator could not be asked, or did not say: once more, after a pause, with all that is true."""
        self._coordinator = None
        self._said = None
        self._due = self._loop.time() + self._backoff.next()

    def _judge(self, code: int, message: str | None) -> None:
        """What an error in the answer means."""
        if code in _OUT:
            log.info("Group %s: %s, joining anew", self.group_id, ErrorCode(code).name)
            self._metrics.add("failed-rebalance-total")
            self._forget()
        elif code in MOVED or is_retriable(code):
            self._again()
        else:
            self._metrics.add("failed-rebalance-total")
            words = " ".join((message or "the coordinator refuses").split())  # a parser may draw over several lines
            self._fail(broker_error(code, f"{self._setting(code)}: {words}"))

    def _setting(self, code: int) -> str:
        """The setting that an error is about, with its value."""
        group = f"group.protocol=consumer, group.id={self.group_id}"
        return {
            ErrorCode.GROUP_MAX_SIZE_REACHED: f"group.id={self.group_id}",
            ErrorCode.UNSUPPORTED_ASSIGNOR: f"group.remote.assignor={self._assignor}",
            ErrorCode.INVALID_REGULAR_EXPRESSION: f"subscribe({self._regex!r}), group.id={self.group_id}",
            ErrorCode.UNRELEASED_INSTANCE_ID: f"group.instance.id={self._instance_id}",
            ErrorCode.FENCED_INSTANCE_ID: f"group.instance.id={self._instance_id}",
        }.get(ErrorCode(code), group)

    def _fail(self, error: Exception) -> None:
        """The next poll raises it. Nobody beats meanwhile: what we have is others' by then."""
        self._fatal = error
        self._forget()

    def _forget(self) -> None:
        """We are no member any more; the next poll says so to the listener, then joins anew."""
        self._round += 1
        self._epoch, self._asked_in = _JOIN, False
        self._target = self._said = None
        self._lost = True
        self._callbacks.wake()

    # The end ------------------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Leaves the group; static members keep their partitions until their session ends, unless they are back. A join
        that is under way is before it on the connection."""
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
                log.info("Group %s: could not leave: %s", self.group_id, broker_error(answer.error_code))
        except (*LOST, KafkaError) as error:
            log.info("Group %s: could not say goodbye: %s", self.group_id, error)

    async def stop(self) -> None:
        """No more heartbeats: what follows is the goodbye, or nothing."""
        self._stopped = True
        self._heart.cancel()
        await asyncio.gather(self._heart, return_exceptions=True)


def _without_regex(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name != "subscribed_topic_regex"}
