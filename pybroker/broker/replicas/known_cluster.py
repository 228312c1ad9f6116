"""What the controller has told this broker of the cluster, change by change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from pybroker.broker.metadata.control_messages import UpdateCluster, UpdateClusterResponse
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.protocol.error_codes import ErrorCode


class Obeys(Protocol):
    """What on this broker follows the cluster's metadata directly: settings, access control."""

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Puts a change in force. Must not raise."""
        ...


class KnownCluster:
    """`cluster.view.ClusterView` of this broker."""

    def __init__(self, obeyed_by: Sequence[Obeys]) -> None:
        self._obeyed_by = tuple(obeyed_by)
        self._image = ClusterImage.initial(-1)
        self._number = 0
        self._in_force = -1, 0
        """Controller epoch and number of the last change that is obeyed."""
        self._reached: list[tuple[tuple[int, int], asyncio.Future[None]]] = []
        self._shown: list[Callable[[], None]] = []
        self._told: list[Callable[[], None]] = []
        self._turn = asyncio.Lock()

    def on_change(self, tell: Callable[[], None]) -> None:
        """`tell` is called when a change is in force here."""
        self._told.append(tell)

    def when_shown(self, tell: Callable[[], None]) -> None:
        """`tell` is called when the image has been replaced, in the same step, before anybody obeys the change."""
        self._shown.append(tell)

    def also(self, one: Obeys) -> None:
        """One more that follows, after the others."""
        self._obeyed_by += (one,)

    async def reached(self, controller_epoch: int, number: int) -> None:
        """Waits until this broker has heard of that change: of it, or of everything from a later controller."""
        if self._in_force < (controller_epoch, number):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._reached.append(((controller_epoch, number), future))
            await future

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as this broker has heard."""
        return self._image

    def name_of(self, text: str) -> str | None:
        """See `ClusterImage.name_of`."""
        return self._image.name_of(text)

    async def update(self, request: UpdateCluster) -> UpdateClusterResponse:
        """Takes the next change, or a whole image; answers when it is in force. A change that does not follow on what
        is known is refused: guessing what lies between would be believing something that never was."""
        # One after another, also when a new controller speaks while a change of the last one is being obeyed: what is
        # in force is never older than what is shown.
        async with self._turn:
            return await self._update(request)

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
        # Shown first: who obeys looks it up here. Nobody is told that a change is in force before it is obeyed; who
        # waits for that asks `reached`.
        self._image, self._number = after, request.number
        for shown in self._shown:
            shown()
        for one in self._obeyed_by:
            await one.obey(before, after, change)
        self._tell_who_waits((after.controller_epoch, request.number))
        for tell in self._told:
            tell()
        return UpdateClusterResponse()

    def _tell_who_waits(self, reached: tuple[int, int]) -> None:
        self._in_force = reached
        waiting, self._reached = self._reached, []
        for wanted, future in waiting:
            if wanted > reached:
                self._reached.append((wanted, future))
            elif not future.done():
                future.set_result(None)
