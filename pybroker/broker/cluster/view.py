"""This broker's view of the cluster."""

from __future__ import annotations

from typing import Protocol

from pybroker.broker.metadata.image import ClusterImage


class ClusterView(Protocol):
    """The read-only view. It follows the controller's messages in order and may lag behind the controller, which
    therefore checks every decision against the present state again."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as this broker has received it. Immutable: callers may keep it."""
        ...
