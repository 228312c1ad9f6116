"""UpdateMetadata on this broker: clients see the change, and those are told who follow which topics come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.broker.cluster.view import ClusterView
from pybroker.broker.metadata.cache import MetadataCache, RemovedTopic
from pybroker.broker.metadata.control_messages import UpdateMetadataRequest, UpdateMetadataResponse
from pybroker.broker.metadata.image import ClusterImage
from pybroker.native import Uuid

OnRemoved = Callable[[Sequence[RemovedTopic]], None]
"""Incarnations are no more. Must not raise and must not take long."""
OnShown = Callable[[Sequence[Uuid]], None]
"""Incarnations have become visible that were not. As above."""


class MetadataUpdates:
    """All listeners are called in the turn of the loop in which clients begin to see the change."""

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
        """The controller and the life of this broker that the last request was of."""
        self._on_removed = tuple(on_removed)
        self._on_shown = tuple(on_shown)

    def shows(self, image: ClusterImage) -> bool:
        """Whether clients see every topic of the cluster: a broker hears of them in several messages at first."""
        return all(self._cache.topic_by_id(topic_id) is not None for topic_id in image.names)

    def shown_as(self, name: str) -> Uuid | None:
        """The incarnation that clients see under a name."""
        return self._cache.topic_id(name)

    def update(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Applies a request that the caller has found to be current. The first one of a controller to this life of the
        broker names all topics: what was deleted meanwhile, and is not among them, clients must not find any more."""
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
