"""Base of the memberships in a group, for both group protocols, and requests to the coordinator."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from pybroker.client.client_errors import KafkaError
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Network
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.protocol.error_codes import ErrorCode

Result = TypeVar("Result")

LANE = "group"
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class GroupMetadata(NamedTuple):
    """This member's identity in the group. generation: -1 if it is not a member."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None


class Callbacks(NamedTuple):
    """The consumer's callbacks for the steps of a rebalance."""

    revoke: Callable[[frozenset[TopicPartition]], Awaitable[None]]
    lose: Callable[[frozenset[TopicPartition]], Awaitable[None]]
    assign: Callable[[frozenset[TopicPartition], frozenset[TopicPartition]], Awaitable[None]]
    """Called with all partitions owned after the rebalance, and with the added partitions."""
    wake: Callable[[], None]


class GroupMembership(ABC):
    """This consumer's membership in its group. Each poll calls `ensure_active`; partitions change only in that call."""

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
        """This member's current identity."""

    @property
    @abstractmethod
    def must_rejoin(self) -> bool:
        """Whether the next poll has work to do for the group."""

    @property
    @abstractmethod
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions. If it does, only members may commit."""

    @property
    def reads_as(self) -> tuple[str | None, int]:
        """Member id and member epoch for OffsetFetch, if the group checks them; otherwise (None, -1)."""
        return None, -1

    @property
    @abstractmethod
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this member owns."""

    @abstractmethod
    def subscribe(self, topics: frozenset[str], regex: str | None) -> None:
        """Set the topics to read. regex: the pattern from which the topics were selected, for brokers that match
        patterns themselves."""

    @abstractmethod
    def request_rejoin(self, why: str) -> None:
        """Mark the current assignment as possibly outdated."""

    @abstractmethod
    def notice_topics(self) -> None:
        """Compare the metadata with what this member last reported to the group."""

    @abstractmethod
    async def ensure_active(self, give_up: float) -> None:
        """Do the work that the group requires, until `give_up` (loop time) at most. Raises an error that a retry cannot
        fix.
        """

    @abstractmethod
    def answered(self, code: int) -> None:
        """Handle the error code of a commit."""

    @abstractmethod
    def identity(self, who: GroupMetadata, partitions: frozenset[TopicPartition]) -> GroupMetadata | None:
        """Return the identity with which offsets of these partitions can be committed. `who` is the member that has
        read them. None if another member may own the partitions.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group, so that the other members need not wait for the session timeout."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop heartbeats. Called before `leave`, or instead of it."""

    def polled(self) -> None:
        """Restart `max.poll.interval.ms`, because the caller has polled."""
        self._polled_at = self._loop.time()

    # The coordinator ----------------------------------------------------------------------------------------

    async def _connection(self, lane: str = LANE) -> BrokerConnection:
        if self._coordinator is None:
            self._coordinator = await self._network.coordinator(self.group_id)
        return await self._network.connection(self._coordinator, lane)

    async def ask(self, message: Any, version: int | None = None, *, lane: str = LANE) -> Any:
        """Send a request to the coordinator. Raises BrokerConnectionError if it cannot be reached, KafkaTimeoutError if
        it does not respond in time.
        """
        return await (await self._connection(lane)).request(message, version)

    async def highest(self, request: type) -> int:
        """Return the highest version of a request that the coordinator and this client know."""
        return (await self._connection()).highest(request)

    async def attempt(self, once: Callable[[], Awaitable[Result]], timeout_s: float | None = None) -> Result:
        """Run `once`, which sends a request to the coordinator; retry while the coordinator is unreachable or not
        ready. Raises the same errors as `Network.attempt`.
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
