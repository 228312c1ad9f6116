"""All of share groups that a broker has, as one thing to hand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.broker.coordinators.share_state.coordinator import ShareStateCoordinator

if TYPE_CHECKING:
    from pybroker.broker.coordinators.share_partition.manager import RemovedTopic, SharePartitions


class Shares:
    """What handlers are bound to."""

    def __init__(
        self,
        coordination: ShareCoordination,
        make_partitions: Callable[[], SharePartitions],
        states: ShareStateCoordinator,
        settings: ShareSettings,
        *,
        dead_letters: DeadLetterAppends,
        disconnect: Callable[[], None] | None,
    ) -> None:
        """make_partitions: called when a member reads first. disconnect: ends the connections to other brokers, at a
        stop; None of a broker that is alone."""
        self.coordination = coordination
        self._make_partitions = make_partitions
        self._partitions: SharePartitions | None = None
        self.states = states
        self.settings = settings
        self.dead_letters = dead_letters
        self.disconnect = disconnect

    @property
    def partitions(self) -> SharePartitions:
        """The share partitions of this broker."""
        if self._partitions is None:
            self._partitions = self._make_partitions()
        return self._partitions

    def connection_gone(self, connection_id: int) -> None:
        """Whoever read over it comes no more, or begins anew."""
        if self._partitions is not None:
            self._partitions.connection_gone(connection_id)

    def topics_removed(self, removed: Sequence[RemovedTopic]) -> None:
        """Incarnations are gone, and what was acquired of them."""
        if self._partitions is not None:
            self._partitions.topics_removed(removed)

    def stop(self) -> None:
        """Nothing is given out any more."""
        if self._partitions is not None:
            self._partitions.stop()
