"""The share-group components of a broker, bundled for its handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.broker.coordinators.share_state.coordinator import ShareStateCoordinator

if TYPE_CHECKING:
    from pybroker.broker.coordinators.share_partition.manager import RemovedShareTopic, SharePartitions


class Shares:
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
        """make_partitions: called when the first member reads. disconnect: closes the connections to other brokers at
        shutdown; None on a broker without peers."""
        self.coordination = coordination
        self._make_partitions = make_partitions
        self._partitions: SharePartitions | None = None
        self.states = states
        self.settings = settings
        self.dead_letters = dead_letters
        self.disconnect = disconnect

    @property
    def partitions(self) -> SharePartitions:
        if self._partitions is None:
            self._partitions = self._make_partitions()
        return self._partitions

    def connection_gone(self, connection_id: int) -> None:
        """Release the share sessions of a closed connection."""
        if self._partitions is not None:
            self._partitions.connection_gone(connection_id)

    def topics_removed(self, removed: Sequence[RemovedShareTopic]) -> None:
        """Drop the acquired records of deleted topics."""
        if self._partitions is not None:
            self._partitions.topics_removed(removed)

    def stop(self) -> None:
        """Stop delivering records."""
        if self._partitions is not None:
            self._partitions.stop()
