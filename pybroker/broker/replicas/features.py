"""The finalized levels of features, as this broker tells its clients."""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import NativeBroker


class ToldFeatures:
    """`known_cluster.Obeys`."""

    def __init__(self, native: NativeBroker) -> None:
        self._native = native

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Who asks for ApiVersions from now on is told so."""
        del before
        if isinstance(change, ClusterImage) or change.features is not None:
            self._native.metadata.set_features(after.features.epoch, after.features.levels)
