"""Controller election. With an embedded store, the only broker is always the controller. In a cluster with ZooKeeper,
the brokers elect one of them; the others wait until it resigns or its session ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.controller.activation import FindLocalIds, LeadershipTakenError, ShowsTopicIds
from pybroker.broker.controller.controller import Controller
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import (
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
"""Longest wait for a store that does not respond. After this time the broker gives up; another broker becomes the
controller when this broker's session ends."""
OVERWRITTEN_PAUSE_S = 1.0
"""Seconds before this broker becomes a candidate again, after its image differed from the store. Without the pause,
brokers that cannot read another program's change would elect each other without end."""


class SoleController:
    """The controller of a cluster with one broker and an embedded store."""

    def __init__(self, leadership: ControllerLeadership, broker_id: int, controller: Controller) -> None:
        self._leadership = leadership
        self._broker_id = broker_id
        self._controller = controller

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Return when the broker is the controller. Raises LoweredError if the configured protocol version is too low
        for the stored topic ids, DamagedNodeError if a node cannot be read."""
        await self._controller.start(find_local_ids, shows_topic_ids)
        self._leadership.set_controller(self._broker_id)

    async def stop(self) -> None:
        await self._controller.stop()

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change sent to brokers."""
        return self._controller.changes

    @property
    def controller(self) -> int | None:
        """This broker, once it has started."""
        return self._leadership.controller


class TermElection:
    """Takes part in elections while it runs. It creates a new `Controller` for each term."""

    def __init__(self, leadership: ControllerLeadership, on_fatal: Callable[[FatalError], None]) -> None:
        self._leadership = leadership
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self._controller: Controller | None = None
        """The controller of this broker's current term."""

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change; (-1, -1) while this broker is not the controller."""
        return (-1, -1) if self._controller is None else self._controller.changes

    @property
    def controller(self) -> int | None:
        """The controller's broker id, as far as this broker knows; None if there is no controller."""
        return self._leadership.controller

    def _take_part(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work, name="election")
        self._task.add_done_callback(self._ended)

    async def _take_no_part(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.critical("the controller election failed", exc_info=problem)
            self._on_fatal(
                problem if isinstance(problem, FatalError) else FatalError(f"the controller election failed: {problem}")
            )

    async def _resign(self) -> None:
        """End the current term, if there is one."""
        controller, self._controller = self._controller, None
        if controller is not None:
            await controller.stop()


class ControllerElection(TermElection):
    """The election of brokers that share a metadata store."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        broker_id: int,
        leadership: ControllerLeadership,
        make_controller: Callable[[], Controller],
        on_fatal: Callable[[FatalError], None],
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`check` raises FatalError if the store does not belong to this broker's cluster."""
        super().__init__(leadership, on_fatal)
        self._check = check
        self._store = store
        self._broker_id = broker_id
        self._make_controller = make_controller
        self._session_lost = asyncio.Event()

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Take part in elections until stopped; return at once."""
        self._store.on_session(self._session)
        self._take_part(self._run(find_local_ids, shows_topic_ids))

    async def stop(self) -> None:
        """Resign if this broker is the controller. The other brokers then elect a controller at once."""
        await self._take_no_part()
        if self._controller is not None:
            await self._resign()
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LEAVE_S_MAX):
                    await self._vacate(self._broker_id)

    async def unseat(self, broker_id: int) -> None:
        """End another broker's term before its session ends, because brokers have seen that its process is dead. If
        that process is still running, the store refuses its writes as soon as there is a new controller."""
        with contextlib.suppress(StoreError):
            await self._vacate(broker_id)

    async def _vacate(self, broker_id: int) -> None:
        """Delete /controller if that broker is the controller and no later term has begun. The version of /controller
        is the same in each term, so only the controller epoch shows a later term."""
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

    async def _run(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        while True:
            try:
                await self._stand(find_local_ids, shows_topic_ids)
            except (UnavailableError, UnknownOutcomeError) as problem:
                # The next read of the store shows whether the deletion succeeded.
                log.warning("cannot read from the metadata store which broker is controller, retrying: %s", problem)
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
                self._leadership.set_controller(holder)
                await changed.wait()
                return
            # This broker wrote the node in an earlier session, or in a term that did not begin. If it left the node
            # there, it would have to wait until that session expires.
            await self._vacate(holder)
        self._leadership.set_controller(None)
        self._session_lost.clear()
        if self._check is not None:
            await self._check()
        controller = self._make_controller()
        try:
            await controller.start(find_local_ids, shows_topic_ids)
        except LeadershipTakenError:
            return
        self._controller = controller
        self._leadership.set_controller(self._broker_id)
        await self._hold(controller)

    async def _hold(self, controller: Controller) -> None:
        """Wait until the term ends: the session ends, or the store refuses a write because another broker is the
        controller."""
        lost = asyncio.ensure_future(self._session_lost.wait())
        resigned = asyncio.ensure_future(controller.resigned.wait())
        try:
            await asyncio.wait([lost, resigned], return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            resigned.cancel()
        self._leadership.set_controller(None)
        log.warning("this broker is no longer controller")
        await self._resign()
        if controller.overwritten:
            await self._vacate(self._broker_id)
            await asyncio.sleep(OVERWRITTEN_PAUSE_S)
