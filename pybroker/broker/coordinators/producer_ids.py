"""Ids for producers: taken from the metadata store in blocks, so that no id is ever handed out twice, on any broker.

`/latest_producer_id_block` holds the last block that any broker has taken, in Kafka's own form. A block is ours once
the node was changed under the version that we read; what is left of it when the broker stops is lost, which does no
harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from pybroker.broker.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    StoreError,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

R = TypeVar("R")

BLOCK_PATH = "/latest_producer_id_block"
BLOCK_SIZE = 1_000
FETCH_AHEAD = 500
"""With so few ids left the next block is fetched: producers do not wait for the store's flush, and new ones come also
while it is away."""
STORE_S_MAX = 5.0
"""For how long a client waits for the store before it is told to ask again; its request names no time."""

PRODUCER_ID_MAX = (1 << 63) - 1
EPOCH_MAX = 32_767 - 1
"""The last epoch of a 16-bit number stays unused, as in Kafka: it fences a producer that has none left."""


class ProducerIdBlock(msgspec.Struct):
    """The node's JSON. Kafka writes the bounds, both inclusive, as text."""

    version: int
    broker: int
    block_start: str
    block_end: str


class ProducerIds:
    """Hands out ids. One per broker; lives on the loop's thread."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = -1
        self._upcoming: tuple[int, int] | None = None
        self._claim: asyncio.Task[None] | None = None
        self._highest_end = -1

    def stock(self) -> None:
        """Has the first block fetched, before anybody asks: a store that is away later is not needed then."""
        self._fetch()

    async def next_id(self) -> int:
        """A producer id that nobody else has. KafkaError COORDINATOR_LOAD_IN_PROGRESS (clients ask again) while the
        store gives none."""
        while self._next > self._end:
            if self._upcoming is not None:
                (self._next, self._end), self._upcoming = self._upcoming, None
                continue
            await _in_time(asyncio.shield(self._fetch()))
        producer_id = self._next
        self._next += 1
        if self._end - self._next < FETCH_AHEAD and self._upcoming is None:
            self._fetch()
        return producer_id

    async def next_epoch(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """(id, epoch) for a producer that has used up its sequence: the next epoch, or a new id (KIP-360).

        It is a function of the request alone, so that a request sent again is answered alike.
        """
        if 0 <= epoch < EPOCH_MAX and 0 <= producer_id <= await self._highest_taken(producer_id):
            return producer_id, epoch + 1
        return await self.next_id(), 0

    async def _highest_taken(self, producer_id: int) -> int:
        """The end of the last block that was ever taken. Read only when it matters, as it grows, here or at another
        broker."""
        if self._highest_end < producer_id:
            try:
                node = await _in_time(self._store.get(BLOCK_PATH))
                self._highest_end = int(_parse(node.data).block_end)
            except NoNodeError:
                return -1
            except StoreError as error:
                raise _unavailable(error) from error
        return self._highest_end

    def _fetch(self) -> asyncio.Task[None]:
        """One claim at a time, whoever asks."""
        if self._claim is None:
            self._claim = asyncio.get_running_loop().create_task(self._take_block())
            self._claim.add_done_callback(self._claim_over)
        return self._claim

    def _claim_over(self, task: asyncio.Task[None]) -> None:
        self._claim = None
        if not task.cancelled() and task.exception() is not None:
            log.warning("no block of producer ids could be taken: %s", task.exception())

    async def _take_block(self) -> None:
        while True:
            try:
                self._upcoming = await self._try_block()
            except (BadVersionError, NodeExistsError):
                continue  # Another broker was faster; its block is known now.
            except StoreError as error:
                raise _unavailable(error) from error
            self._highest_end = max(self._highest_end, self._upcoming[1])
            return

    async def _try_block(self) -> tuple[int, int]:
        try:
            node = await self._store.get(BLOCK_PATH)
        except NoNodeError:
            await self._store.create(BLOCK_PATH, self._encoded(0))
            return 0, BLOCK_SIZE - 1
        start = int(_parse(node.data).block_end) + 1
        if start > PRODUCER_ID_MAX - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been used.")
        await self._store.set(BLOCK_PATH, self._encoded(start), node.version)
        return start, start + BLOCK_SIZE - 1

    def _encoded(self, start: int) -> bytes:
        return msgspec.json.encode(ProducerIdBlock(1, self._broker_id, str(start), str(start + BLOCK_SIZE - 1)))


async def _in_time(work: Awaitable[R]) -> R:
    """Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS after `STORE_S_MAX`."""
    try:
        async with asyncio.timeout(STORE_S_MAX):
            return await work
    except TimeoutError:
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the metadata store gives no ids: it does not answer"
        ) from None


def _parse(data: bytes) -> ProducerIdBlock:
    try:
        block = msgspec.json.decode(data, type=ProducerIdBlock)
        if int(block.block_end) < int(block.block_start):
            raise ValueError("it ends before it starts")
    except ValueError as problem:
        # Guessing here could hand out an id twice, which breaks idempotence silently.
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{BLOCK_PATH} in the metadata store cannot be read: {problem}"
        ) from problem
    return block


def _unavailable(error: StoreError) -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the metadata store gives no ids: {error}")
