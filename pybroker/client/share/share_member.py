"""Membership in a share group: heartbeats, and the partitions assigned by the coordinator (KIP-932)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

from pybroker.client.client_errors import KafkaError, UnsupportedVersionError, broker_error, is_retriable
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.network import LOST, Network
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.share.acknowledgements import Partition
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

LANE = "group"
_JOIN, _LEAVE = 0, -1
"""Member epochs in requests: to join and to leave."""
_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class ShareMember:
    """A member. A background task sends heartbeats while the caller polls. changed: called when the partitions have
    changed, and after a failure.
    """

    def __init__(
        self, config: ClientConfig, network: Network, metrics: ClientMetrics, changed: Callable[[], None]
    ) -> None:
        self.member_id = str(uuid.uuid4())
        self.partitions: frozenset[Partition] = frozenset()
        self._config = config
        self._network = network
        self._metrics = metrics
        self._changed = changed
        self._group_id: str = config["group.id"]
        self._epoch = _JOIN
        self._asked_in = False
        """True if the coordinator may have this member, because the member has sent a join that was not refused."""
        self._topics: frozenset[str] | None = None
        self._said: dict[str, Any] | None = None
        """Fields that the coordinator has received; None if it has none."""
        self._failure: Exception | None = None
        self._coordinator: int | None = None
        self._due: float | None = None
        self._hurry = asyncio.Event()
        self._beating = False
        self._loop = asyncio.get_running_loop()
        self._polled_at = self._loop.time()
        self._backoff = Backoff(config.seconds("retry.backoff.ms"), config.seconds("retry.backoff.max.ms"))
        self._heart = asyncio.create_task(self._live())

    def subscribe(self, topics: frozenset[str]) -> None:
        """Set the topics to read."""
        if topics != self._topics:
            self._topics = topics
            self._hurry.set()

    def polled(self) -> None:
        """Note that the caller has polled. Raises an error that a retry cannot fix; even then, the next poll tries
        again."""
        self._polled_at = self._loop.time()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._hurry.set()
            raise failure
        if self._epoch == _JOIN and self._due is None and not self._beating:
            self._hurry.set()

    async def _live(self) -> None:
        while True:
            try:
                async with asyncio.timeout_at(self._due):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()
            self._due = None
            if self._topics is None or self._failure is not None:
                continue
            self._beating = True
            try:
                await self._beat()
            # The next poll raises the error: without heartbeats the group drops this member.
            except Exception as error:
                self._failure = error
                self._forget()
            finally:
                self._beating = False

    async def _beat(self) -> None:
        limit_s = self._config.seconds("max.poll.interval.ms")
        if self._epoch > 0 and self._loop.time() - self._polled_at > limit_s:
            log.warning("Group %s: no poll for max.poll.interval.ms=%.0f, leaving", self._group_id, limit_s * 1000)
            await self.leave()
            return
        fields: dict[str, Any] = {
            "rack_id": self._config["client.rack"] or None,
            "subscribed_topic_names": sorted(self._topics or ()),
        }
        known = self._said or {}
        changes = {name: value for name, value in fields.items() if name not in known or known[name] != value}
        self._asked_in = True
        try:
            answer = await self._ask(
                m.ShareGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=self.member_id, member_epoch=self._epoch, **changes
                )
            )
        except LOST as error:
            log.info("Group %s: %s", self._group_id, error)
            self._again()
            return
        except KafkaError as error:
            if not is_retriable(error.code):
                raise
            self._again()
            return
        if answer.error_code:
            self._judge(answer.error_code, answer.error_message)
            return
        self._backoff.reset()
        self._said, self._epoch = fields, answer.member_epoch
        self._due = self._loop.time() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._assign(
                frozenset(
                    (topic.topic_id, index)
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                )
            )

    def _assign(self, partitions: frozenset[Partition]) -> None:
        if partitions != self.partitions:
            log.info("Group %s, epoch %s: %s partitions", self._group_id, self._epoch, len(partitions))
            self.partitions = partitions
            self._metrics.add("rebalance-total")
            self._changed()

    async def _ask(self, request: m.ShareGroupHeartbeatRequest) -> Any:
        if self._coordinator is None:
            self._coordinator = await self._network.coordinator(self._group_id)
        connection = await self._network.connection(self._coordinator, LANE)
        if not connection.supports(m.ShareGroupHeartbeatRequest, 1):
            raise UnsupportedVersionError(
                "the broker does not support share groups (KIP-932, its feature share.version)"
            )
        return await connection.request(request)

    def _judge(self, code: int, message: str | None) -> None:
        if code in _OUT:
            log.info("Group %s: %s, rejoining", self._group_id, ErrorCode(code).name)
            self._forget()
            self._hurry.set()
        elif code in _MOVED or is_retriable(code):
            self._again()
        else:
            self._failure = broker_error(
                code, f"group.id={self._group_id}: {message or 'the coordinator rejected the heartbeat'}"
            )
            self._forget()

    def _again(self) -> None:
        """Send a full heartbeat after a pause, because the coordinator was unreachable or did not answer."""
        self._coordinator = self._said = None
        self._due = self._loop.time() + self._backoff.next()

    def _forget(self) -> None:
        self._epoch, self._said, self.partitions = _JOIN, None, frozenset()
        self._asked_in = False
        self._changed()

    async def leave(self) -> None:
        """Leave the group, so that the other members need not wait for the session timeout."""
        if self._asked_in:
            request = m.ShareGroupHeartbeatRequest(
                group_id=self._group_id, member_id=self.member_id, member_epoch=_LEAVE
            )
            try:
                answer = await self._ask(request)
                if answer.error_code:
                    log.info("Group %s: leave failed: %s", self._group_id, broker_error(answer.error_code))
            except (*LOST, KafkaError) as error:
                log.info("Group %s: leave request failed: %s", self._group_id, error)
        self._forget()

    async def unsubscribe(self) -> None:
        """Drop the subscription and leave the group."""
        self._topics = None
        await self.leave()

    async def stop(self) -> None:
        """Stop heartbeats."""
        self._heart.cancel()
        await asyncio.gather(self._heart, return_exceptions=True)
