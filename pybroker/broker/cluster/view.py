"""What this broker knows of the cluster."""

from __future__ import annotations

from typing import Protocol

from pybroker.broker.metadata.image import ClusterImage


class ClusterView(Protocol):
    """Read-only. It follows the controller's messages, in their order, and may be a moment behind the controller: what
    depends on the present state is checked again where it is decided."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as this broker has heard. Immutable: keep it as long as you like."""
        ...
