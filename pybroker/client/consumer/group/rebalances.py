"""The work that a consumer does for its group: commits offsets, and handles assigned and revoked partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pybroker.client.client_errors import KafkaError
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.close_timeout import CloseTimeout
from pybroker.client.connection.network import LOST, Network
from pybroker.client.consumer.fetch_positions import Positions
from pybroker.client.consumer.group.classic_member import ClassicProtocolMember
from pybroker.client.consumer.group.consumer_protocol_member import ConsumerProtocolMember
from pybroker.client.consumer.group.group_membership import Callbacks, GroupMembership
from pybroker.client.consumer.group.offset_committer import GroupCommits
from pybroker.client.offset_types import OffsetAndMetadata
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.native import Uuid

log = logging.getLogger(__name__)


class RebalanceListener:
    """The caller's callbacks for rebalances; they run inside `poll`. Each may be `async def` or plain."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Any:
        """Called before other members get the partitions; offsets can still be committed."""

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Any:
        """Called when this consumer owns the partitions; positions may be set."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Any:
        """Called when other members already have the partitions: offsets cannot be committed."""

    def on_topic_recreated(self, topic: str, old: Uuid, new: Uuid) -> Any:
        """Called when a topic was deleted and created again; reading continues at the start of the new incarnation."""


class Rebalances:
    """The group work of a consumer's polls. `member` is None until topics are subscribed or offsets are requested.

    in_listener: whether an `async def` listener is running. It may use the consumer, even though it runs inside a poll.
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
        self.member: GroupMembership | None = None
        self.in_listener = False
        self._config = config
        self._positions = positions
        self._metrics = metrics
        self._interceptors = interceptors
        self._arrived = arrived
        self._wake = wake
        self._network: Network | None = None
        self._commits: GroupCommits | None = None
        self._auto_commit: bool = config["enable.auto.commit"] and config["group.id"] is not None
        self._committed_at = 0.0
        self._committing: asyncio.Task[None] | None = None

    def start(self, network: Network) -> None:
        """Set the network, once the client is connected."""
        self._network = network
        self._committed_at = asyncio.get_running_loop().time()

    async def leave(self) -> None:
        """Revoke all partitions and leave the group."""
        await self.give_up(self._positions.assigned())
        if self.member is not None:
            await self.member.stop()
            await self.member.leave()
            self.member = self._commits = None

    async def finish(
        self, patience: CloseTimeout, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, subscribed: bool
    ) -> bool:
        """Make the last auto-commit, revoke the partitions, leave the group. Return whether all of this completed in
        time.
        """
        if self._auto_commit and self._commits is not None and offsets:
            if self._committing is not None:
                self._committing.cancel()  # The last commit has more offsets than the commit that is running.
            await patience.wait_for(self._commit_quietly(offsets))
        if subscribed and self.member is not None:
            await patience.wait_for(self._revoke(self._positions.assigned()))
        if self.member is not None:
            await self.member.stop()
            await patience.wait_for(self.member.leave())
        return patience.left_s != 0.0

    async def stop(self) -> None:
        """Cancel running commits and heartbeats."""
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        if self.member is not None:
            await self.member.stop()

    # Commits ------------------------------------------------------------------------------------------------

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after all delivered records."""
        return {
            state.where: OffsetAndMetadata(state.position, state.epoch)
            for state in self._positions
            if state.position is not None
        }

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float | None = None) -> None:
        """Commit offsets and call the interceptors. Raises the same errors as `GroupCommits.commit`."""
        await self.commits().commit(offsets, timeout_s)
        self._metrics.add("commit-total")
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:  # The user's code may raise anything; the offsets are committed.
                log.exception("%s.on_commit failed", type(interceptor).__name__)

    def commits(self) -> GroupCommits:
        """Return the group's offsets. Raises ValueError if there is no `group.id`."""
        network = self._network
        assert network is not None, "started"
        if self._config["group.id"] is None:
            raise ValueError("committed offsets require group.id")
        if self.member is None:
            callbacks = Callbacks(self.give_up, self.lose, self.get, self._arrived)
            kind = ConsumerProtocolMember if self._config["group.protocol"] == "consumer" else ClassicProtocolMember
            self.member = kind(self._config, network, self._metrics, callbacks)
        if self._commits is None:
            self._commits = GroupCommits(self._config, network, self.member, self._incarnation)
        return self._commits

    def _incarnation(self, where: TopicPartition) -> Uuid:
        """Return the topic id that a position belongs to."""
        state = self._positions.get(where)
        if state is not None and state.topic_id:
            return state.topic_id
        return self._network.cluster.topic_id(where.topic) if self._network is not None else Uuid.ZERO

    def commit_is_not_due(self) -> bool:
        """Return whether no auto-commit is due."""
        now = asyncio.get_running_loop().time()
        return not self._auto_commit or now - self._committed_at < self._config.seconds("auto.commit.interval.ms")

    async def commit_if_due(self) -> None:
        """Commit the delivered positions in the background, if due."""
        if self.commit_is_not_due() or (self._committing is not None and not self._committing.done()):
            return
        self._committed_at = asyncio.get_running_loop().time()
        offsets = self.consumed()
        if offsets:
            self._committing = asyncio.create_task(self._commit_quietly(offsets))

    async def _commit_quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit in the background. A failure is only logged, because the next commit contains these offsets too."""
        try:
            await self.commit(offsets)
        except (*LOST, KafkaError) as error:
            log.warning("Offset commit failed: %s", error)
        except Exception:
            log.exception("Offset commit failed")

    # Partitions come and go ---------------------------------------------------------------------------------

    async def give_up(self, partitions: frozenset[TopicPartition]) -> None:
        """Commit, run the listener and drop partitions that go to other members."""
        if self._committing is not None:
            await asyncio.gather(self._committing, return_exceptions=True)
        if self._auto_commit and self._commits is not None:
            offsets = {where: offset for where, offset in self.consumed().items() if where in partitions}
            if offsets:
                await self._commit_quietly(offsets)
        await self._revoke(partitions)

    async def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Run the listener, then drop the partitions."""
        try:
            if partitions:
                await self.await_listener(self.listener.on_partitions_revoked(partitions))
        # `Exception` does not include cancellation. After a cancelled poll, the next poll calls the listener again.
        except Exception:
            self._drop(partitions)
            raise
        self._drop(partitions)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        self._positions.assign(sorted(self._positions.assigned() - partitions))

    async def lose(self, partitions: frozenset[TopicPartition]) -> None:
        """Drop partitions that other members already own, then run the listener."""
        self._drop(partitions)
        await self.await_listener(self.listener.on_partitions_lost(partitions))

    async def get(self, partitions: frozenset[TopicPartition], added: frozenset[TopicPartition]) -> None:
        """Take over these partitions. `added`: the partitions that are new."""
        self._positions.assign(sorted(partitions))
        self._committed_at = asyncio.get_running_loop().time()
        await self.await_listener(self.listener.on_partitions_assigned(added))
        self._wake()

    async def await_listener(self, result: Any) -> None:
        """Await the result of a listener that is `async def`."""
        if asyncio.iscoroutine(result):
            self.in_listener = True
            try:
                await result
            finally:
                self.in_listener = False
