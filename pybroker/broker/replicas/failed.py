"""Reports of local replicas whose log directory has failed, so that the controller elects other leaders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.broker.cluster.controller_client import ControllerPort
from pybroker.broker.cluster.events import ReplicasOffline
from pybroker.broker.replicas.telling import Partition, Telling


class FailedReplicas:
    """The reports of a broker in a cluster; a single broker has no other replica to lead. On the loop's thread."""

    def __init__(self, port: ControllerPort, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._telling = Telling(
            port,
            lambda told: ReplicasOffline(broker_id, told, broker_epoch()),
            refused="the controller refused the report of replicas on a failed log directory",
        )

    def offline(self, partitions: Sequence[Partition]) -> None:
        """Report partitions that stay out of service while this process runs."""
        self._telling.tell(partitions)

    async def stop(self) -> None:
        """Stop reporting."""
        await self._telling.stop()
