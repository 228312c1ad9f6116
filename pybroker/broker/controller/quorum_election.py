"""Controller election in a metadata quorum: the leader of the metadata log is the controller. Whenever this node
becomes the leader, it creates a `Controller` for the epoch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.controller.activation import FindLocalIds, ShowsTopicIds
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.controller_election import TermElection
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.quorum.quorum_log import MetadataLog
from pybroker.errors import FatalError

log = logging.getLogger(__name__)


class QuorumElection(TermElection):
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
        super().__init__(leadership, on_fatal)
        self._log = log
        self._loader = loader
        self._broker_id = broker_id
        self._make_controller = make_controller
        self._changed = asyncio.Event()
        loader.follow_leader(self._leader_changed)

    async def start(self, find_local_ids: FindLocalIds, shows_topic_ids: ShowsTopicIds) -> None:
        """Take part in elections; return at once. This node becomes the controller when the quorum elects it."""
        self._take_part(self._run(find_local_ids, shows_topic_ids))

    async def stop(self) -> None:
        """Resign, if this broker is the controller."""
        self._log.resign()
        await self._take_no_part()
        await self._resign()

    async def unseat(self, broker_id: int) -> None:
        """Report to the quorum that the process of its leader has died."""
        self._log.port_refused(broker_id)

    def _leader_changed(self, epoch: int, leader: int | None) -> None:
        del epoch
        if leader != self._broker_id:
            self._leadership.set_controller(leader)
        self._changed.set()

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
