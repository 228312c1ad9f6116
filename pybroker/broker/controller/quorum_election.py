"""Controller leadership in a metadata quorum: the leader of the log is the controller. Each epoch that this node leads
has its own `Controller`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.controller.activation import FindLocalIds, ShowsTopicIds
from pybroker.broker.controller.controller import Controller
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.quorum.quorum_log import MetadataLog
from pybroker.errors import FatalError

log = logging.getLogger(__name__)


class QuorumElection:
    """The terms of one broker."""

    def __init__(
        self,
        *,
        log: MetadataLog,
        loader: MetadataLoader,
        broker_id: int,
        leadership: ControllerLeadership,
        make_controller: Callable[[int], Controller],
        on_fatal: Callable[[FatalError], None],
    ) -> None:
        """`make_controller` returns the controller of an epoch."""
        self._log = log
        self._loader = loader
        self._broker_id = broker_id
        self._leadership = leadership
        self._make_controller = make_controller
        self._on_fatal = on_fatal
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._controller: Controller | None = None
        loader.follow_leader(self._leader_changed)

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Lead when the quorum elects this node; return at once."""
        self._task = asyncio.create_task(self._run(find_local_ids, shows_topic_ids), name="election")
        self._task.add_done_callback(self._ended)

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the end of the log with the last change; (-1, -1) if this broker is not the
        controller."""
        return (-1, -1) if self._controller is None else self._controller.changes

    @property
    def controller(self) -> int | None:
        """The controller's broker id as far as this broker knows; None if there is none."""
        return self._leadership.controller

    async def stop(self) -> None:
        """Give up the leadership, if this broker holds it."""
        self._log.resign()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._resign()

    async def unseat(self, broker_id: int) -> None:
        """Tell the quorum that the process of its leader was seen dead."""
        self._log.port_refused(broker_id)

    def _leader_changed(self, epoch: int, leader: int | None) -> None:
        del epoch
        if leader != self._broker_id:
            self._leadership.set_controller(leader)
        self._changed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.critical("the controller election failed", exc_info=problem)
            self._on_fatal(
                problem if isinstance(problem, FatalError) else FatalError(f"the controller election failed: {problem}")
            )

    async def _run(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        led = -1
        while True:
            self._changed.clear()
            epoch, leader = self._loader.leader
            if self._controller is not None and (epoch, leader) != (led, self._broker_id):
                log.warning("this broker is no longer controller epoch=%d", led)
                await self._resign()
                continue
            if leader == self._broker_id and epoch > led:
                led = epoch
                controller = self._controller = self._make_controller(epoch)
                await controller.start(find_local_ids, shows_topic_ids)
                self._leadership.set_controller(self._broker_id)
                continue
            await self._changed.wait()

    async def _resign(self) -> None:
        controller, self._controller = self._controller, None
        if controller is not None:
            await controller.stop()
