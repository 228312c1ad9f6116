"""`ClusterResource` and who wants to know it (KIP-78): public names, imported by brokers' metric reporters and by
clients' interceptors, serializers and metric reporters alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec


class ClusterResource(msgspec.Struct, frozen=True):
    """What a plug-in learns of the cluster that it works for (KIP-78, checklist 285)."""

    cluster_id: str | None
    """Text of the alphabet [a-zA-Z0-9_-], not necessarily a UUID; None from a cluster older than KIP-78."""


class ClusterResourceListener(ABC):
    """Implemented, beside their own interface, by plug-ins that want the cluster id (checklist 286, 287).

    A broker calls its metric reporters once, at start; a client calls its plug-ins after every metadata response, so
    `on_update` may see the same value many times.
    """

    @abstractmethod
    def on_update(self, cluster_resource: ClusterResource) -> None:
        """The cluster id is known. Called on the owner's thread; must not block."""
