"""A consumer's part in its group: commits, and partitions that come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pybroker.client.cluster import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import LOST, Network
from pybroker.client.connection.patience import Patience
from pybroker.client.consumer.group.commits import Commits
from pybroker.client.consumer.group.member import GroupMember
from pybroker.client.consumer.group.membership import Callbacks, Membership
from pybroker.client.consumer.group.newer_member import NewerMember
from pybroker.client.consumer.positions import Positions
from pybroker.client.errors import KafkaError
from pybroker.client.offsets import OffsetAndMetadata
from pybroker.client.plugins.metrics import ClientMetrics
from pybroker.native import Uuid

log = logging.getLogger(__name__)


class RebalanceListener:
    """What a caller does when partitions come and go; called inside `poll`. Each may be `async def` or plain."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Any:
        """They go to other members; what was read may be committed now."""

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Any:
        """They are ours now; positions may be set."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Any:
        """They are others' already: nothing can be committed."""

    def on_topic_recreated(self, topic: str, old: Uuid, new: Uuid) -> Any:
        """The topic was deleted and created again; reading goes on at the start of the new one."""


class Rebalances:
    """What the consumer's polls do for the group. `member` is None until topics are subscribed or offsets asked for.

    in_listener: a listener's `async def` runs, which may use the consumer inside a poll.
    """

    def __init__(
        self,
        config: ClientConfig,
        positions: Positions,
        metrics: ClientMetrics,
        interceptors: Sequence[Any],
        *,
        arrived: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.listener = RebalanceListener()
        self.member: Membership | None = None
        self.in_listener = False
        self._config = config
        self._positions = positions
        self._metrics = metrics
        self._interceptors = interceptors
        self._arrived = arrived
        self._wake = wake
        self._network: Network | None = None
        self._commits: Commits | None = None
        self._auto_commit: bool = config["enable.auto.commit"] and config["group.id"] is not None
        self._committed_at = 0.0
        self._committing: asyncio.Task[None] | None = None

    def start(self, network: Network) -> None:
        """There are connections now."""
        self._network = network
        self._committed_at = asyncio.get_running_loop().time()

    async def leave(self) -> None:
        """Gives all up and leaves the group, for as long as nothing else is subscribed."""
        await self.give_up(self._positions.assigned())
        if self.member is not None:
            await self.member.stop()
            await self.member.leave()
            self.member = self._commits = None

    async def finish(
        self, patience: Patience, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, subscribed: bool
    ) -> bool:
        """The end: last commits by itself, the listener, the goodbye. Whether all of that was done in time."""
        if self._auto_commit and self._commits is not None and offsets:
            if self._committing is not None:
                self._committing.cancel()  # of less than this one
            await patience.wait_for(self._commit_quietly(offsets))
        if subscribed and self.member is not None:
            await patience.wait_for(self._revoke(self._positions.assigned()))
        if self.member is not None:
            await self.member.stop()
            await patience.wait_for(self.member.leave())
        return patience.left_s != 0.0

    async def stop(self) -> None:
        """Ends what is under way."""
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        if self.member is not None:
            await self.member.stop()

    # Commits ------------------------------------------------------------------------------------------------

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind all that was handed out."""
        return {
            state.where: OffsetAndMetadata(state.position, state.epoch)
            for state in self._positions
            if state.position is not None
        }

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float | None = None) -> None:
        """Stores offsets and tells interceptors. Raises what `Commits.commit` raises."""
        await self.commits().commit(offsets, timeout_s)
        self._metrics.add("commit-total")
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                log.exception("%s.on_commit failed", type(interceptor).__name__)

    def commits(self) -> Commits:
        """The group's offsets. Raises ValueError without `group.id`."""
        network = self._network
        assert network is not None, "started"
        if self._config["group.id"] is None:
            raise ValueError("committed offsets need group.id")
        if self.member is None:
            callbacks = Callbacks(self.give_up, self.lose, self.get, self._arrived)
            kind = NewerMember if self._config["group.protocol"] == "consumer" else GroupMember
            self.member = kind(self._config, network, self._metrics, callbacks)
        if self._commits is None:
            self._commits = Commits(self._config, network, self.member, self._incarnation)
        return self._commits

    def _incarnation(self, where: TopicPartition) -> Uuid:
        """The topic id that a position belongs to."""
        state = self._positions.get(where)
        if state is not None and state.topic_id:
            return state.topic_id
        return self._network.cluster.topic_id(where.topic) if self._network is not None else Uuid.ZERO

    def commit_is_not_due(self) -> bool:
        """Whether the next commit by itself can wait."""
        now = asyncio.get_running_loop().time()
        return not self._auto_commit or now - self._committed_at < self._config.seconds("auto.commit.interval.ms")

    async def commit_if_due(self) -> None:
        """Commits what was handed out, in the background."""
        if self.commit_is_not_due() or (self._committing is not None and not self._committing.done()):
            return
        self._committed_at = asyncio.get_running_loop().time()
        offsets = self.consumed()
        if offsets:
            self._committing = asyncio.create_task(self._commit_quietly(offsets))

    async def _commit_quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """A commit that nobody waits for: what fails is tried again with the next."""
        try:
            await self.commit(offsets)
        except (*LOST, KafkaError) as error:
            log.warning("Offsets were not committed: %s", error)
        except Exception:
            log.exception("Offsets were not committed")

    # Partitions come and go ---------------------------------------------------------------------------------

    async def give_up(self, partitions: frozenset[TopicPartition]) -> None:
        """They go to others: committed and told first."""
        if self._committing is not None:
            await asyncio.gather(self._committing, return_exceptions=True)
        if self._auto_commit and self._commits is not None:
            offsets = {where: offset for where, offset in self.consumed().items() if where in partitions}
            if offsets:
                await self._commit_quietly(offsets)
        await self._revoke(partitions)

    async def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Told, then not ours any more."""
        try:
            if partitions:
                await self.tell(self.listener.on_partitions_revoked(partitions))
        except Exception:  # but not a cancelled poll: the next one tells again
            self._drop(partitions)
            raise
        self._drop(partitions)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        self._positions.assign(sorted(self._positions.assigned() - partitions))

    async def lose(self, partitions: frozenset[TopicPartition]) -> None:
        """They are others' already."""
        self._drop(partitions)
        await self.tell(self.listener.on_partitions_lost(partitions))

    async def get(self, partitions: frozenset[TopicPartition], added: frozenset[TopicPartition]) -> None:
        """These are ours now; `added` were not before."""
        self._positions.assign(sorted(partitions))
        self._committed_at = asyncio.get_running_loop().time()
        await self.tell(self.listener.on_partitions_assigned(added))
        self._wake()

    async def tell(self, result: Any) -> None:
        """Waits for a listener that is `async def`."""
        if asyncio.iscoroutine(result):
            self.in_listener = True
            try:
                await result
            finally:
                self.in_listener = False
