"""What every membership in a group is to its consumer, whichever protocol the group speaks, and the way to its
coordinator.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from pybroker.client.cluster import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Network
from pybroker.client.errors import KafkaError
from pybroker.client.plugins.metrics import ClientMetrics
from pybroker.protocol.error_codes import ErrorCode

Result = TypeVar("Result")

LANE = "group"
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class GroupMetadata(NamedTuple):
    """This member's identity in the group. generation: -1 while it is no member."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None


class Callbacks(NamedTuple):
    """What the consumer does at each step of a rebalance."""

    revoke: Callable[[frozenset[TopicPartition]], Awaitable[None]]
    lose: Callable[[frozenset[TopicPartition]], Awaitable[None]]
    assign: Callable[[frozenset[TopicPartition], frozenset[TopicPartition]], Awaitable[None]]
    """(all of them now, the new ones)"""
    wake: Callable[[], None]


class Membership(ABC):
    """This consumer's membership in its group. Each poll calls `ensure_active`; partitions change only there."""

    def __init__(self, config: ClientConfig, network: Network, metrics: ClientMetrics, callbacks: Callbacks) -> None:
        self.group_id: str = config["group.id"]
        self._config = config
        self._network = network
        self._metrics = metrics
        self._callbacks = callbacks
        self._instance_id: str | None = config["group.instance.id"]
        self._poll_interval_ms: int = config["max.poll.interval.ms"]
        self._coordinator: int | None = None
        self._polled_at = 0.0
        self._loop = asyncio.get_running_loop()

    @property
    @abstractmethod
    def metadata(self) -> GroupMetadata:
        """This member's identity now."""

    @property
    @abstractmethod
    def must_rejoin(self) -> bool:
        """Whether the next poll has something to do for the group."""

    @property
    @abstractmethod
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions: then only members may commit."""

    @property
    def reads_as(self) -> tuple[str | None, int]:
        """Member id and member epoch for questions about offsets, where the group checks them: (None, -1) if not."""
        return None, -1

    @property
    @abstractmethod
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are this member's now."""

    @abstractmethod
    def subscribe(self, topics: frozenset[str], regex: str | None) -> None:
        """Sets the topics to read. regex: that they come from, where a broker could match it."""

    @abstractmethod
    def request_rejoin(self, why: str) -> None:
        """What the group has assigned may not be true any more."""

    @abstractmethod
    def notice_topics(self) -> None:
        """Compares the metadata with what the group has been told."""

    @abstractmethod
    async def ensure_active(self, give_up: float) -> None:
        """Does what is due for the group, until `give_up` (loop time) at most. Raises errors that another attempt does
        not mend.
        """

    @abstractmethod
    def answered(self, code: int) -> None:
        """What the error code of a commit means for the membership."""

    @abstractmethod
    def identity(self, who: GroupMetadata, partitions: frozenset[TopicPartition]) -> GroupMetadata | None:
        """As what offsets of these partitions can be committed that were read by `who`; None if others may have them
        by now.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Leaves the group, so that the others need not wait for the session's end."""

    @abstractmethod
    async def stop(self) -> None:
        """No more heartbeats: what follows is the goodbye, or nothing."""

    def polled(self) -> None:
        """The caller has polled: `max.poll.interval.ms` starts again."""
        self._polled_at = self._loop.time()

    # The coordinator ----------------------------------------------------------------------------------------

    async def _connection(self, lane: str = LANE) -> BrokerConnection:
        if self._coordinator is None:
            self._coordinator = await self._network.coordinator(self.group_id)
        return await self._network.connection(self._coordinator, lane)

    async def ask(self, message: Any, version: int | None = None, *, lane: str = LANE) -> Any:
        """A request to the coordinator. Raises BrokerConnectionError, KafkaTimeoutError."""
        return await (await self._connection(lane)).request(message, version)

    async def highest(self, request: type) -> int:
        """The highest version that the coordinator and this client know."""
        return (await self._connection()).highest(request)

    async def attempt(self, once: Callable[[], Awaitable[Result]], timeout_s: float | None = None) -> Result:
        """Has the coordinator asked by `once`, again while it is away or not ready. Raises what `Network.attempt`
        raises.
        """

        async def where() -> int:
            if self._coordinator is None:
                self._coordinator = await self._network.coordinator(self.group_id)
            return self._coordinator

        def failed(error: Exception) -> None:
            if not isinstance(error, KafkaError):
                self._coordinator = None

        about = f"group {self.group_id}"
        return await self._network.attempt(
            where, lambda _: once(), timeout_s=timeout_s, lane=LANE, about=about, failed=failed
        )
