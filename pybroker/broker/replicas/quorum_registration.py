"""This broker's registration with the controller of a metadata quorum, and its heartbeats.

The broker's fetches of the metadata topic contain the same information as a heartbeat. The broker sends a heartbeat
only in two cases: when it has applied a change, because the next fetch may come much later, and when its fetches do not
reach the controller. The controller's own broker does not fetch, but its session does not end: it repeats its
heartbeats less often.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat, RegisterBroker, StopBroker
from pybroker.broker.metadata.feature_levels import broker_features
from pybroker.broker.metadata.znodes import Endpoint, RunningNode
from pybroker.broker.quorum.fetch_reports import BrokerReport, FetchReports
from pybroker.broker.replicas.broker_registration import boot_id, say_lost_directories
from pybroker.errors import FatalError, KafkaError, StartError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 0.2
REGISTER_MS = 5_000
"""Time limit of one attempt to register."""
HEARTBEAT_MS = 1_000
"""Time limit of one heartbeat."""
FETCH_INTERVALS_MAX = 1.5
"""Heartbeat intervals without an answered fetch after which the broker sends a heartbeat. An idle leader holds each
fetch for up to one interval."""
OWN_INTERVALS = 4
"""Heartbeat intervals between the heartbeats of the controller's own broker."""
LEAVE_MS = 2_000
REFUSED = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.UNSUPPORTED_VERSION)
"""Errors after which another attempt is useless."""


class QuorumRegistration:
    """The registration of this process; used on the loop's thread. A `PublisherListener`."""

    def __init__(
        self,
        controller: ControllerClient,
        broker_id: int,
        flush_mode: str,
        on_fatal: Callable[[FatalError], None],
        *,
        incarnation: Uuid,
        reports: FetchReports,
        heartbeat_s: float,
        log_dirs: tuple[str, ...] = (),
        cordoned: tuple[str, ...] = (),
        leads: Callable[[], bool] = lambda: False,
    ) -> None:
        """`leads` returns whether this broker is the controller."""
        self._controller = controller
        self._broker_id = broker_id
        self._flush_mode = flush_mode
        self._on_fatal = on_fatal
        self._incarnation = incarnation
        self._reports = reports
        self._heartbeat_s = heartbeat_s
        self._log_dirs = log_dirs
        self._cordoned = cordoned
        self._leads = leads
        self._epoch = -1
        """The broker epoch in the metadata that this broker has applied; -1 if the metadata contains no registration.
        """
        self._assigned = -1
        """The broker epoch in the controller's last answer; this broker may not have applied it yet."""
        self._applied = 0
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._event: RegisterBroker | None = None
        self._lives: Callable[[int], None] = lambda broker_epoch: None
        self._lost = False
        self._staying = False
        self._task: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int:
        """Return the broker epoch in the metadata that this broker has applied; -1 if the metadata contains no
        registration."""
        return self._epoch

    # --- calls of the publisher ---------------------------------------------------------------------------------------

    def registered(self, broker_epoch: int) -> None:
        """Begin a new broker epoch."""
        self._epoch, self._lost = broker_epoch, False
        self._report()
        self._lives(broker_epoch)
        self._wake.set()

    def unregistered(self) -> None:
        """Register again."""
        self._epoch, self._lost = -1, True
        self._report()
        self._wake.set()

    def applied(self, offset: int) -> None:
        """Send a heartbeat immediately, because decisions may wait for this broker."""
        self._applied = offset
        self._report()
        self._wake.set()

    def _report(self) -> None:
        self._reports.current = BrokerReport(self._epoch, self._applied)

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def on_life(self, lives: Callable[[int], None]) -> None:
        """Call `lives` with each new broker epoch, before the first order for that epoch."""
        self._lives = lives

    async def register(
        self, endpoints: tuple[Endpoint, ...], rack: str | None, directory_ids: tuple[str, ...], *, topic_ids: bool
    ) -> int:
        """Register and return the broker epoch. If there is no controller, wait for a controller. Raises StartError if
        another broker has the id, or if the cluster has a level of metadata.version that this release does not support.
        """
        here = tuple(directory_id for directory_id in directory_ids if directory_id)
        run = RunningNode(boot_id(), self._flush_mode, here, topic_ids=topic_ids)
        self._event = RegisterBroker(
            self._broker_id,
            self._incarnation,
            endpoints,
            rack,
            run,
            self._log_dirs,
            self._cordoned,
            broker_features(),
        )
        return await self._register(self._event)

    async def _register(self, event: RegisterBroker) -> int:
        while True:
            try:
                registered = (await self._controller.submit(event, REGISTER_MS)).reply
            except KafkaError as error:
                if error.code in REFUSED:
                    raise StartError(str(error)) from None
                log.warning("cannot register with the controller, retrying: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            say_lost_directories(registered.lost_directories)
            self._assigned = registered.epoch
            return registered.epoch

    async def judged(self) -> None:
        """Do nothing: the decision about the registration has already processed the possible loss of records."""

    def stay(
        self, endpoints: tuple[Endpoint, ...], rack: str | None, directory_id: str, registered: Callable[[int], None]
    ) -> None:
        """Send heartbeats, and register again whenever the registration has ended. New epochs are reported to the
        function given to `on_life`.
        """
        del endpoints, rack, directory_id, registered
        self._staying = True
        self._reports.on_received = self._received
        self._task = asyncio.create_task(self._run(), name="registration")

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._epoch < 0 and self._lost:
                if self._staying:
                    await self._register_again()
                self._wake_after(1)
            elif self._epoch >= 0 and self._reports.is_known(
                self._reports.current, FETCH_INTERVALS_MAX * self._heartbeat_s
            ):
                self._wake_after(FETCH_INTERVALS_MAX)
            else:
                accepted = await self._beat()
                self._wake_after(OWN_INTERVALS if accepted and self._leads() else 1)
            await self._wake.wait()

    def _received(self, report: BrokerReport) -> None:
        if report == self._reports.current and report.broker_epoch >= 0:
            self._wake_after(FETCH_INTERVALS_MAX)

    def _wake_after(self, intervals: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(intervals * self._heartbeat_s, self._wake.set)

    async def _beat(self) -> bool:
        """Send a heartbeat; return whether the controller has accepted it."""
        epoch = self._epoch if self._epoch >= 0 else self._assigned
        try:
            await self._controller.submit(BrokerHeartbeat(self._broker_id, epoch, self._applied), HEARTBEAT_MS)
        except KafkaError as error:
            log.debug("heartbeat failed: %s", error)
            # If a registration ends before this broker has applied it, the applied metadata does not show the end. It
            # shows all other ends.
            if error.code == ErrorCode.STALE_BROKER_EPOCH and self._epoch < 0 and epoch == self._assigned:
                self._lost = True
            return False
        return True

    async def _register_again(self) -> None:
        assert self._event is not None
        try:
            epoch = await self._register(self._event)
        except StartError as problem:
            self._staying = False
            self._on_fatal(FatalError(str(problem)))
            return
        self._lost = False
        log.warning("registered again after the registration was lost broker_epoch=%d", epoch)

    def stop_staying(self) -> None:
        """Stop registering again, because this broker is about to stop."""
        self._staying = False

    async def leave(self, *, complete: bool) -> None:
        """Unregister after everything is on disk, so that the next start reports no loss. Raises KafkaError."""
        self.stop_staying()
        await self.stop()
        await self._controller.submit(StopBroker(self._broker_id, self._epoch, complete), LEAVE_MS)

    async def stop(self) -> None:
        """Stop sending heartbeats."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self._reports.on_received = lambda report: None
            if self._timer is not None:
                self._timer.cancel()
