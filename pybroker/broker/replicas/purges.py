"""Applies the shortened delays of deletion records to what waits for removal on this broker."""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.replicas.staging import Staging


class Purges:
    """`known_cluster.Obeys`."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Wakes the removal. A whole image comes first after a start: this broker may have missed a purge."""
        del before
        records = after.deletions.values() if isinstance(change, ClusterImage) else change.deletions
        shortened = [record.topic_id for record in records if record.delay_max_ms >= 0]
        if shortened:
            self._staging.shortened(shortened)
