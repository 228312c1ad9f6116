"""Producer ids, allocated in blocks so that no two brokers use the same id. If a broker stops, the unused ids of its
block are lost, which does no harm.

With ZooKeeper or SQLite, `/latest_producer_id_block` contains the latest allocated block, in Kafka's format. To
allocate the next block, a broker replaces the node's content, if the node has not changed since the broker read it. In
a metadata quorum the controller allocates the blocks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol, TypeVar

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.quorum_events import AllocateProducerIds
from pybroker.broker.metadata.metadata_store import (
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
"""If fewer ids are left, the broker allocates the next block in advance. Then producers do not wait for the metadata
store, and new producers get ids even while the store is unreachable."""
STORE_S_MAX = 5.0
"""Limit in seconds of a client's wait for the metadata store, after which it gets a retriable error. InitProducerId has
no timeout of its own."""

PRODUCER_ID_MAX = (1 << 63) - 1
EPOCH_MAX = 32_767 - 1
"""The highest epoch that producers get. As in Kafka, the last 16-bit epoch is reserved: with it the broker fences a
producer that has no other epoch left.
"""


class ProducerIdBlock(msgspec.Struct):
    """The node's JSON. As in Kafka, both bounds are texts and inclusive."""

    version: int
    broker: int
    block_start: str
    block_end: str


def following_id(data: bytes) -> int:
    """Return the first id after the block in a node. Raises KafkaError."""
    return int(_parse(data).block_end) + 1


class ProducerIdBlocks(Protocol):
    """Allocates blocks of producer ids."""

    async def take(self) -> tuple[int, int]:
        """Return the first and last id of a new block.

        Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS, which clients retry, if the store or the controller does not
        answer.
        """
        ...

    async def highest(self, producer_id: int) -> int:
        """Return the last id of the latest block that any broker has allocated, or of a block that contains
        `producer_id`. Raises the same errors as `take`."""
        ...


class StoredBlocks:
    """Allocates blocks in the metadata store (ZooKeeper or SQLite)."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id

    async def take(self) -> tuple[int, int]:
        while True:
            try:
                return await self._try_block()
            except (BadVersionError, NodeExistsError):
                continue  # Another broker has changed the node; read it again.
            except StoreError as error:
                raise _unavailable(error) from error

    async def highest(self, producer_id: int) -> int:
        del producer_id
        try:
            return int(_parse((await self._store.get(BLOCK_PATH)).data).block_end)
        except NoNodeError:
            return -1
        except StoreError as error:
            raise _unavailable(error) from error

    async def _try_block(self) -> tuple[int, int]:
        try:
            node = await self._store.get(BLOCK_PATH)
        except NoNodeError:
            await self._store.create(BLOCK_PATH, self._encoded(0))
            return 0, BLOCK_SIZE - 1
        start = following_id(node.data)
        if start > PRODUCER_ID_MAX - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been used.")
        await self._store.set(BLOCK_PATH, self._encoded(start), node.version)
        return start, start + BLOCK_SIZE - 1

    def _encoded(self, start: int) -> bytes:
        return msgspec.json.encode(ProducerIdBlock(1, self._broker_id, str(start), str(start + BLOCK_SIZE - 1)))


class AllocatedBlocks:
    """Blocks that the controller of a metadata quorum allocates."""

    def __init__(self, controller: ControllerClient, view: ClusterView, broker_id: int) -> None:
        self._controller = controller
        self._view = view
        self._broker_id = broker_id

    async def take(self) -> tuple[int, int]:
        try:
            block = (await self._controller.submit(AllocateProducerIds(self._broker_id))).reply
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
            raise _unavailable(error) from error
        return block.first, block.last

    async def highest(self, producer_id: int) -> int:
        """Read the metadata image. If the last block in the image ends below the id, wait until the image contains all
        decisions made before this call."""
        if self._view.image.next_producer_id <= producer_id:
            try:
                await self._controller.catch_up()
            except KafkaError as error:
                raise _unavailable(error) from error
        return self._view.image.next_producer_id - 1


class ProducerIds:
    """The producer ids of one broker; for the event loop's thread only."""

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._blocks = blocks
        self._next = 0
        self._end = -1
        self._upcoming: tuple[int, int] | None = None
        self._claim: asyncio.Task[None] | None = None
        self._highest_end = -1

    def stock(self) -> None:
        """Allocate the first block in advance, because the store may be unreachable when a client needs an id."""
        self._fetch()

    async def next_id(self) -> int:
        """Return a producer id that no other producer has.

        Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS, which clients retry, if no new block can be allocated.
        """
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
        """Return (id, epoch) for a producer that requests a new epoch (KIP-360): the next epoch, or a new id.

        The result depends only on the request: a retried request gets the same response.
        """
        if 0 <= epoch < EPOCH_MAX and 0 <= producer_id <= await self._highest_taken(producer_id):
            return producer_id, epoch + 1
        return await self.next_id(), 0

    async def _highest_taken(self, producer_id: int) -> int:
        """Return the last id of the latest block that any broker has allocated. Use the cached value unless it is too
        low."""
        if self._highest_end < producer_id:
            self._highest_end = await _in_time(self._blocks.highest(producer_id))
        return self._highest_end

    def _fetch(self) -> asyncio.Task[None]:
        """Start the allocation of a block, or return the allocation that is already running."""
        if self._claim is None:
            self._claim = asyncio.get_running_loop().create_task(self._take_block())
            self._claim.add_done_callback(self._claim_over)
        return self._claim

    def _claim_over(self, task: asyncio.Task[None]) -> None:
        self._claim = None
        if not task.cancelled() and task.exception() is not None:
            log.warning("cannot allocate a block of producer ids: %s", task.exception())

    async def _take_block(self) -> None:
        self._upcoming = await self._blocks.take()
        self._highest_end = max(self._highest_end, self._upcoming[1])


async def _in_time(work: Awaitable[R]) -> R:
    """Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS if `work` takes longer than `STORE_S_MAX`."""
    try:
        async with asyncio.timeout(STORE_S_MAX):
            return await work
    except TimeoutError:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the metadata store does not answer") from None


def _parse(data: bytes) -> ProducerIdBlock:
    try:
        block = msgspec.json.decode(data, type=ProducerIdBlock)
        if int(block.block_end) < int(block.block_start):
            raise ValueError("it ends before it starts")
    except ValueError as problem:
        # Without the store, two brokers could use the same id. Idempotence would then fail without any error.
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot read {BLOCK_PATH} in the metadata store: {problem}"
        ) from problem
    return block


def _unavailable(error: Exception) -> KafkaError:
    return KafkaError(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"cannot allocate producer ids: {error}"
    )
