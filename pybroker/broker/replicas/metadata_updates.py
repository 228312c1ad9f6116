"""Handles UpdateMetadata on this broker. It shows the change to clients, and notifies listeners of topics that appear
and disappear."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.control_messages import UpdateMetadataRequest, UpdateMetadataResponse
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_cache import MetadataCache, RemovedTopic
from pybroker.native import Uuid

OnRemoved = Callable[[Sequence[RemovedTopic]], None]
"""Called with the removed incarnations. It must not raise an exception and must be quick."""
OnShown = Callable[[Sequence[Uuid]], None]
"""Called with the newly visible incarnations. It must not raise an exception and must be quick."""


class MetadataUpdates:
    """The receiver of UpdateMetadata. It calls all listeners in the same iteration of the event loop in which clients
    begin to see the change."""

    def __init__(
        self,
        cache: MetadataCache,
        view: ClusterView,
        *,
        on_removed: Sequence[OnRemoved],
        on_shown: Sequence[OnShown],
    ) -> None:
        self._cache = cache
        self._view = view
        self._last = (-1, -1)
        """Controller epoch and broker epoch of the last request."""
        self._on_removed = tuple(on_removed)
        self._on_shown = tuple(on_shown)

    def shows(self, image: ClusterImage) -> bool:
        """Return whether clients see every topic of the cluster. After a start, the topics arrive in several messages.
        """
        return all(self._cache.topic_by_id(topic_id) is not None for topic_id in image.names)

    def shown_as(self, name: str) -> Uuid | None:
        """Return the incarnation that clients see under a name."""
        return self._cache.topic_id(name)

    def update(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Apply a request that is known to be current. A controller's first request to this broker epoch names all
        topics. If a topic is missing in this request, the topic was deleted in the meantime, and clients must no longer
        find it."""
        spoken = (request.controller_epoch, request.broker_epoch)
        image = self._view.image
        whole = spoken != self._last and image.controller_epoch == request.controller_epoch
        self._last = spoken
        removed, shown = self._cache.update(request, image.names if whole else None)
        if removed:
            for gone in self._on_removed:
                gone(removed)
        if shown:
            for come in self._on_shown:
                come(shown)
        return UpdateMetadataResponse(0)
