"""Replicas here whose log directory has failed: the controller is told, so that others lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.broker.cluster.events import ReplicasOffline
from pybroker.broker.cluster.port import ControllerPort
from pybroker.broker.replicas.telling import Partition, Telling


class FailedReplicas:
    """Of a broker in a cluster; alone, there is nobody who could lead instead. On the loop's thread."""

    def __init__(self, port: ControllerPort, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._telling = Telling(
            port,
            lambda told: ReplicasOffline(broker_id, told, broker_epoch()),
            refused="the controller does not let others lead what failed here",
        )

    def offline(self, partitions: Sequence[Partition]) -> None:
        """They are served no more, for as long as this process lives."""
        self._telling.tell(partitions)

    async def stop(self) -> None:
        """Tells nothing more."""
        await self._telling.stop()
