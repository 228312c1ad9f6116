"""Purges on this broker: it applies shortened delays of deletion records to its staged replicas."""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.replicas.staging import Staging


class Purges:
    """The `known_cluster.Obeys` for purges."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Wake the removal. After a start a whole image comes first, because this broker may have missed a purge."""
        del before
        records = after.deletions.values() if isinstance(change, ClusterImage) else change.deletions
        shortened = [record.topic_id for record in records if record.delay_max_ms >= 0]
        if shortened:
            self._staging.shortened(shortened)
