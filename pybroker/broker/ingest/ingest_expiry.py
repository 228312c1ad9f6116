"""Expiry of ingests: drops idle open ingests, forgets old commits, and retries failed removals.

In a cluster, each broker knows only the appends that it has received itself. When a broker has received records of an
ingest, it therefore writes the time to the cluster's metadata before a quarter of the ingest's ttl has passed. If that
time is older than one and a half times the ttl, the leader of the topic's first partition drops the ingest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import DropIngests, TouchIngests
from pybroker.broker.ingest.ingest_leader import IngestLeader
from pybroker.broker.ingest.staged_file_removal import Removal
from pybroker.broker.metadata.ingest_records import COMMITTED, IngestKey, IngestRecord
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError

log = logging.getLogger(__name__)

ROUND_S_MAX = 30.0
"""The longest time between two checks."""
ROUND_S_MIN = 0.05
ROUND_S_EACH = 0.0001
"""Minimum of seconds between two checks; each open or remembered ingest adds this number. A check costs 0.5 μs per
ingest. With this addition, checks take less than 1 % of the control plane's time, however many ingests clients begin
and however short their ttl_ms is.
"""
RETRY_S = 2.0
"""Delay after a round that failed because of a bug."""


class Expiry:
    """The expiry task of one broker."""

    def __init__(
        self,
        *,
        broker_id: int,
        alone: bool,
        leader: IngestLeader,
        view: ClusterView,
        controller: ControllerClient,
        config: BrokerConfig,
        clock: Clock,
        lock: Callable[[IngestKey], AbstractAsyncContextManager[Any]],
        end: Callable[[IngestRecord], Awaitable[None]],
        forget_gone: Callable[[], Awaitable[None]],
        removal: Removal,
    ) -> None:
        self._broker_id = broker_id
        self._alone = alone
        self._leader = leader
        self._view = view
        self._controller = controller
        self._config = config
        self._clock = clock
        self._lock = lock
        self._end = end
        self._forget_gone = forget_gone
        self._removal = removal
        self._wake = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the periodic checks."""
        self._keeper = asyncio.create_task(self._keep(), name="ingests")

    async def stop(self) -> None:
        """Stop the periodic checks."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    def wake(self) -> None:
        """Recompute the time of the next check: a new ingest may have a shorter ttl."""
        self._wake.set()

    async def _keep(self) -> None:
        while True:
            image = self._view.image
            least = ROUND_S_MIN + ROUND_S_EACH * (len(image.ingests) + len(image.committed_ingests))
            await asyncio.sleep(min(least, ROUND_S_MAX))
            self._wake.clear()
            ttls = [record.ttl_ms for record in self._view.image.ingests.values()]
            retention = self._config["ingest.id.retention.ms"]
            pause = min([ROUND_S_MAX, retention / 4000, *(ttl / 4000 for ttl in ttls)])
            if pause > least:
                await _first(self._wake.wait(), pause - least)
            try:
                if not self._alone:
                    await self._write_down()
                await self._expire()
                await self._forget_gone()
                await self._removal.retry()
            except KafkaError as error:
                log.warning("cannot expire ingests: %s", error)
            except Exception:
                # Ignore the failure: the next round releases the disk space of the other ingests.
                log.exception("cannot expire ingests: this is a bug in pybroker")
                await asyncio.sleep(RETRY_S)

    async def _write_down(self) -> None:
        """For each ingest whose recorded time is old, record when this broker last received records."""
        if not (open_now := self._view.image.ingests):
            return
        news = tuple(
            (record.key, record.epoch, staged.touched_ms)
            for key, staged in self._leader.staged().items()
            if (record := open_now.get(key)) is not None and staged.touched_ms > record.last_ms + record.ttl_ms / 4
        )
        if news:
            await self._controller.submit(TouchIngests(news))

    async def _expire(self) -> None:
        now_ms = self._clock.wall_ms()
        for record in list(self._view.image.ingests.values()):
            touched = now_ms - record.ttl_ms
            if record.last_ms >= (touched if self._alone else touched - record.ttl_ms / 2):
                continue
            if not self._alone and not self._is_responsible(record):
                continue
            async with self._lock(record.key):
                if self._view.image.ingests.get(record.key) != record:
                    continue
                if await self._leader.expire(record, touched):
                    log.info(
                        "ingest expired without an append ingest=%r topic=%s ttl_ms=%d",
                        record.ingest_id,
                        self._view.image.describe(record.topic_id),
                        record.ttl_ms,
                    )
                    await self._end(record)
        before = now_ms - self._config["ingest.id.retention.ms"]
        old = tuple(
            (record.series, record.batch_id)
            for record in self._view.image.committed_ingests.values()
            if record.state == COMMITTED and record.committed_ms < before
        )
        if old:
            await self._controller.submit(DropIngests(committed=old))

    def _is_responsible(self, record: IngestRecord) -> bool:
        image = self._view.image
        topic = image.topic_by_id(record.topic_id)
        if topic is None:
            return False
        leader = topic.partitions[0].leader
        return self._broker_id == (leader if leader >= 0 else min(image.brokers, default=-1))


async def _first(wait: Any, seconds: float) -> None:
    try:
        # Do not use wait_for: in Python 3.11 it loses a cancellation that arrives together with the end of the wait.
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        return
