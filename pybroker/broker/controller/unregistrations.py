"""Removal of the znodes that unregistered brokers wrote to the store themselves.

These znodes are the mark of a running broker and the list of data in the broker's `deleting/`. The list must be
removed, because a deletion ends only when no broker lists data of the topic. A broker that returns writes its running
mark and its registration in one multi. Therefore each step of the removal checks that the running mark has not changed.
The next controller repeats an unfinished removal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.controller.internal_events import BrokerForgotten
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import UNREGISTERED, ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import (
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


class BrokerNotes(Protocol):
    """The znodes or records that an unregistered broker has left."""

    async def forget(self, broker_id: int, is_unregistered: Callable[[], bool]) -> bool:
        """Remove the broker's znodes or records. Return False if the broker is back. Raises StoreError."""
        ...


class Unregistrations:
    """The pending removals of one controller, on the event loop's thread."""

    def __init__(self, notes: BrokerNotes, controller: ControllerClient, image: Callable[[], ClusterImage]) -> None:
        self._notes = notes
        self._controller = controller
        self._image = image
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, image: ClusterImage) -> None:
        """Continue the removals that earlier controllers have not finished."""
        for broker_id, epoch in image.broker_epochs.items():
            if epoch == UNREGISTERED:
                self._begin(broker_id)

    def observe(self, delta: ImageDelta) -> None:
        """Update the pending removals after a change of the image."""
        for broker_id, epoch in delta.broker_epochs.items():
            if epoch == UNREGISTERED:
                self._begin(broker_id)

    async def stop(self) -> None:
        """Stop; the next controller continues with the rest."""
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
                if await self._notes.forget(broker_id, partial(self._unregistered, broker_id)):
                    await self._controller.submit(BrokerForgotten(broker_id))
                    return
            except StoreClosedError:
                return
            except (StoreError, KafkaError) as problem:
                if isinstance(problem, KafkaError) and problem.code == ErrorCode.NOT_CONTROLLER:
                    return
                log.warning(
                    "cannot remove the metadata of an unregistered broker, retrying broker=%d: %s", broker_id, problem
                )
            await asyncio.sleep(RETRY_S)


class StoredBrokerNotes:
    """`BrokerNotes` in the store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def forget(self, broker_id: int, is_unregistered: Callable[[], bool]) -> bool:
        """Remove the nodes."""
        running, staged = f"{znodes.RUNNING}/{broker_id}", f"{znodes.STAGED}/{broker_id}"
        mark = await get_or_none(self._store, running)
        if not is_unregistered() or await get_or_none(self._store, f"{znodes.BROKER_IDS}/{broker_id}"):
            return False
        if mark is None:
            # Remove the running mark last. When it is gone, all other znodes are gone too.
            return True
        same = Check(running, mark.version)
        for part in in_parts([Delete(path) for path in await self._store.subtree(staged)]):
            await self._store.multi([same, *part])
        last: list[Operation] = [Delete(running, mark.version)]
        if await get_or_none(self._store, staged) is not None:
            last.append(Delete(staged))
        await self._store.multi(last)
        return True
