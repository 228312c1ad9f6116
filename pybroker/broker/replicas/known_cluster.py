"""This broker's copy of the cluster image, updated change by change from the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from pybroker.broker.metadata.control_messages import UpdateCluster, UpdateClusterResponse
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.protocol.error_codes import ErrorCode


class ImageObserver(Protocol):
    """A component that applies metadata changes directly, such as settings and access control."""

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a change. Must not raise."""
        ...


class KnownCluster:
    """The `cluster.cluster_view.ClusterView` of this broker."""

    def __init__(self, observers: Sequence[ImageObserver]) -> None:
        self._observers = tuple(observers)
        self._image = ClusterImage.initial(-1)
        self._number = 0
        self._applied = -1, 0
        """Controller epoch and number of the last applied change."""
        self._reached: list[tuple[tuple[int, int], asyncio.Future[None]]] = []
        self._on_replaced: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._turn = asyncio.Lock()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after this broker has applied a change."""
        self._callbacks.append(callback)

    def on_image_replaced(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the image has been replaced, in the same step of the event loop, before the
        components apply the change.
        """
        self._on_replaced.append(callback)

    def add_observer(self, observer: ImageObserver) -> None:
        """Add a component. Components apply changes in the order in which they were added."""
        self._observers += (observer,)

    async def reached(self, controller_epoch: int, number: int) -> None:
        """Wait until this broker has applied the change, or the whole image of a later controller."""
        if self._applied < (controller_epoch, number):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._reached.append(((controller_epoch, number), future))
            await future

    @property
    def image(self) -> ClusterImage:
        """Return the cluster as far as this broker has received it."""
        return self._image

    def name_of(self, text: str) -> str | None:
        """Return the name of a live or deleted topic, given its id as text; see `ClusterImage.name_of`."""
        return self._image.name_of(text)

    async def update(self, request: UpdateCluster) -> UpdateClusterResponse:
        """Apply the next change, or a whole image. Return the answer when it is applied. Refuse a change that does not
        follow the last change, because the image would lack the changes in between."""
        # Apply changes one after the other, even if a new controller sends a change in the meantime. When this method
        # returns, all components have applied the image that is shown.
        async with self._turn:
            return await self._update(request)

    async def follow(self, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Show an image from the metadata log, and apply the change that leads to it. Afterwards the caller calls
        `has_applied`."""
        async with self._turn:
            await self._show(after, change)

    def has_applied(self, controller_epoch: int, number: int) -> None:
        """Note that all changes up to this change are applied, including the orders that result from them."""
        self._wake_waiters((controller_epoch, number))
        for callback in self._callbacks:
            callback()

    async def _show(self, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        # Show the image before the components apply the change, because they read the image here. `reached` reports the
        # change only when they have applied it.
        before, self._image = self._image, after
        for shown in self._on_replaced:
            shown()
        for observer in self._observers:
            await observer.apply_change(before, after, change)

    async def _update(self, request: UpdateCluster) -> UpdateClusterResponse:
        before, change = self._image, request.change
        if request.controller_epoch < before.controller_epoch:
            return UpdateClusterResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        if isinstance(change, ClusterImage):
            after = change
        elif request.controller_epoch == before.controller_epoch and request.number == self._number + 1:
            after = before.apply(change)
        else:
            return UpdateClusterResponse(ErrorCode.INVALID_UPDATE_VERSION)
        self._number = request.number
        await self._show(after, change)
        self.has_applied(after.controller_epoch, request.number)
        return UpdateClusterResponse()

    def _wake_waiters(self, reached: tuple[int, int]) -> None:
        self._applied = reached
        waiting, self._reached = self._reached, []
        for wanted, future in waiting:
            if wanted > reached:
                self._reached.append((wanted, future))
            elif not future.done():
                future.set_result(None)
