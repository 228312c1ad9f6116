"""`ClusterResource` and its listener (KIP-78): public names for brokers' metric reporters and for clients'
interceptors, serializers and metric reporters."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec


class ClusterResource(msgspec.Struct, frozen=True):
    """The cluster that a plug-in works for (KIP-78)."""

    cluster_id: str | None
    """Text of the alphabet [a-zA-Z0-9_-], not necessarily a UUID; None from a cluster older than KIP-78."""


class ClusterResourceListener(ABC):
    """Implemented by plug-ins, besides their own interface, to receive the cluster id (KIP-78).

    A broker calls its metric reporters only once, at start. A client calls its plug-ins after every metadata response,
    so `on_update` may get the same value many times.
    """

    @abstractmethod
    def on_update(self, cluster_resource: ClusterResource) -> None:
        """Receive the cluster id. Called on the owner's thread; must not block."""
