"""Brokers that were unregistered: what they have noted in the store themselves goes as well.

That is their running mark, and what waits in their `deleting/`: a deletion is over when no broker notes anything of it.
A broker that comes back writes its running mark with its registration, in one multi: everything here is done only if
that mark is the one that was there before. It is repeated by the next controller as long as it is not done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.broker.cluster.port import ControllerPort
from pybroker.broker.controller.events import BrokerForgotten
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import UNREGISTERED, ClusterImage, ImageDelta
from pybroker.broker.metadata.store import (
    Check,
    Delete,
    MetadataStore,
    Operation,
    StoreClosedError,
    StoreError,
    get_or_none,
    in_parts,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 1.0


class Unregistrations:
    """Belongs to the controller; runs on the loop's thread."""

    def __init__(self, store: MetadataStore, port: ControllerPort, image: Callable[[], ClusterImage]) -> None:
        self._store = store
        self._port = port
        self._image = image
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, image: ClusterImage) -> None:
        """With what other controllers have not seen the end of."""
        for broker_id, epoch in image.broker_epochs.items():
            if epoch == UNREGISTERED:
                self._begin(broker_id)

    def observe(self, delta: ImageDelta) -> None:
        """After each change."""
        for broker_id, epoch in delta.broker_epochs.items():
            if epoch == UNREGISTERED:
                self._begin(broker_id)

    async def stop(self) -> None:
        """What is left goes on with the next controller."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, broker_id: int) -> None:
        if broker_id in self._tasks:
            return
        task = asyncio.create_task(self._forget(broker_id), name=f"unregistration-{broker_id}")
        self._tasks[broker_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(broker_id, None))

    def _unregistered(self, broker_id: int) -> bool:
        return self._image().broker_epochs.get(broker_id) == UNREGISTERED

    async def _forget(self, broker_id: int) -> None:
        while self._unregistered(broker_id):
            try:
                if await self._remove_notes(broker_id):
                    await self._port.submit(BrokerForgotten(broker_id))
                    return
            except StoreClosedError:
                return
            except (StoreError, KafkaError) as problem:
                if isinstance(problem, KafkaError) and problem.code == ErrorCode.NOT_CONTROLLER:
                    return
                log.warning("the notes of unregistered broker %d are not removed yet: %s", broker_id, problem)
            await asyncio.sleep(RETRY_S)

    async def _remove_notes(self, broker_id: int) -> bool:
        """False: it is back."""
        running, staged = f"{znodes.RUNNING}/{broker_id}", f"{znodes.STAGED}/{broker_id}"
        mark = await get_or_none(self._store, running)
        if not self._unregistered(broker_id) or await get_or_none(self._store, f"{znodes.BROKER_IDS}/{broker_id}"):
            return False
        if mark is None:
            # It is the last that goes.
            return True
        same = Check(running, mark.version)
        for part in in_parts([Delete(path) for path in await self._store.subtree(staged)]):
            await self._store.multi([same, *part])
        last: list[Operation] = [Delete(running, mark.version)]
        if await get_or_none(self._store, staged) is not None:
            last.append(Delete(staged))
        await self._store.multi(last)
        return True
