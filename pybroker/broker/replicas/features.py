"""The finalized feature levels in this broker's ApiVersions."""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import NativeBroker


class ToldFeatures:
    """The `known_cluster.Obeys` for feature levels."""

    def __init__(self, native: NativeBroker) -> None:
        self._native = native

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Show the levels in later ApiVersions responses."""
        del before
        if isinstance(change, ClusterImage) or change.features is not None:
            self._native.metadata.set_features(after.features.epoch, after.features.levels)
