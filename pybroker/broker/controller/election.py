"""Who is the controller: the one broker of an embedded store, or the one of a cluster that is elected, while the others
wait for the office to be free."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from pybroker.broker.cluster.seat import Seat
from pybroker.broker.controller.activation import FindLocalIds, OfficeTakenError, ShowsTopicIds
from pybroker.broker.controller.controller import Controller
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.store import (
    BadVersionError,
    Check,
    Delete,
    MetadataStore,
    MultiError,
    NoNodeError,
    SessionState,
    StoreClosedError,
    StoreError,
    UnavailableError,
    UnknownOutcomeError,
    WatchEvent,
    get_or_none,
)
from pybroker.errors import FatalError

log = logging.getLogger(__name__)

LEAVE_S_MAX = 5.0
"""A store that does not answer is not waited for; the office is free when this broker's session ends."""
OVERWRITTEN_PAUSE_S = 1.0
"""Before this broker stands again whose image was not the store's: a reader that cannot make sense of what somebody has
written there must not take the office again and again."""


class Alone:
    """The one broker of an embedded store: it is the controller from its start to its stop."""

    def __init__(self, seat: Seat, broker_id: int, controller: Controller) -> None:
        self._seat = seat
        self._broker_id = broker_id
        self._controller = controller

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Returns when it is the controller. Raises LoweredError, DamagedNodeError."""
        await self._controller.start(find_local_ids, shows_topic_ids)
        self._seat.taken_by(self._broker_id)

    async def stop(self) -> None:
        """Decides nothing more."""
        await self._controller.stop()

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change that brokers were told of."""
        return self._controller.changes

    @property
    def controller(self) -> int | None:
        """This broker, once it has started."""
        return self._seat.controller


class Election:
    """Of one broker of a cluster, for as long as it runs. Each term has a controller of its own."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        broker_id: int,
        seat: Seat,
        make_controller: Callable[[], Controller],
        on_fatal: Callable[[FatalError], None],
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`check` raises FatalError if the store is not the one that this broker knows."""
        self._check = check
        self._store = store
        self._broker_id = broker_id
        self._seat = seat
        self._make_controller = make_controller
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self._session_lost = asyncio.Event()
        self._controller: Controller | None = None
        """Of this broker's present term."""

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Stands from now on; returns at once."""
        self._store.on_session(self._session)
        self._task = asyncio.create_task(self._run(find_local_ids, shows_topic_ids), name="election")
        self._task.add_done_callback(self._ended)

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change that brokers were told of; (-1, -1) while this broker
        is not the controller."""
        return (-1, -1) if self._controller is None else self._controller.changes

    @property
    def controller(self) -> int | None:
        """Who is in office, as far as this broker knows; None: nobody."""
        return self._seat.controller

    async def stop(self) -> None:
        """Leaves the office, if this broker has it, so that another one is elected at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        controller = self._controller
        if controller is not None:
            await self._resign(controller)
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LEAVE_S_MAX):
                    await self._vacate(self._broker_id)

    async def unseat(self, broker_id: int) -> None:
        """The process of the controller is dead, which others have seen before its session ends: the office is free.
        A controller that lives all the same is refused by the store from the successor's first moment."""
        with contextlib.suppress(StoreError):
            await self._vacate(broker_id)

    async def _vacate(self, broker_id: int) -> None:
        """Frees the office if that broker has it, and nobody has taken it since. The count of terms tells: every new
        /controller has the same version."""
        terms = await get_or_none(self._store, znodes.CONTROLLER_EPOCH)
        node = await get_or_none(self._store, znodes.CONTROLLER)
        if terms is None or node is None or znodes.decode_controller(node.data) != broker_id:
            return
        try:
            await self._store.multi([Check(znodes.CONTROLLER_EPOCH, terms.version), Delete(znodes.CONTROLLER)])
        except MultiError as error:
            if not isinstance(error.cause, NoNodeError | BadVersionError):
                raise

    def _session(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._session_lost.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.critical("standing for election failed", exc_info=problem)
            self._on_fatal(
                problem if isinstance(problem, FatalError) else FatalError(f"standing for election failed: {problem}")
            )

    async def _run(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        while True:
            try:
                await self._stand(find_local_ids, shows_topic_ids)
            except (UnavailableError, UnknownOutcomeError) as problem:
                # What has become of it, the next look tells.
                log.warning("the metadata store does not say who is controller; asking again: %s", problem)
            except StoreClosedError:
                return

    async def _stand(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        changed = asyncio.Event()

        def fired(_: WatchEvent) -> None:
            changed.set()

        node = await self._store.exists(znodes.CONTROLLER, fired)
        if node is not None:
            holder = znodes.decode_controller(node.data)
            if holder != self._broker_id:
                self._seat.taken_by(holder)
                await changed.wait()
                return
            # Left in an earlier life, or by a term that did not begin: its session would be waited for otherwise.
            await self._vacate(holder)
        self._seat.taken_by(None)
        self._session_lost.clear()
        if self._check is not None:
            await self._check()
        controller = self._make_controller()
        try:
            await controller.start(find_local_ids, shows_topic_ids)
        except OfficeTakenError:
            return
        self._controller = controller
        self._seat.taken_by(self._broker_id)
        await self._hold(controller)

    async def _hold(self, controller: Controller) -> None:
        """Until the term is over: the session has ended, or a write was refused because another one is in office."""
        lost = asyncio.ensure_future(self._session_lost.wait())
        resigned = asyncio.ensure_future(controller.resigned.wait())
        try:
            await asyncio.wait([lost, resigned], return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            resigned.cancel()
        self._seat.taken_by(None)
        log.warning("this broker is not the controller any more")
        await self._resign(controller)
        if controller.overwritten:
            await self._vacate(self._broker_id)
            await asyncio.sleep(OVERWRITTEN_PAUSE_S)

    async def _resign(self, controller: Controller) -> None:
        self._controller = None
        await controller.stop()
