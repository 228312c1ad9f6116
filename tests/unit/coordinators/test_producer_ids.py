"""Producer ids are never allocated twice, whatever restarts; epochs follow KIP-360."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pytest

from pybroker.broker.api import k22_init_producer_id
from pybroker.broker.coordinators.producer_ids import BLOCK_PATH, EPOCH_MAX, ProducerIds, StoredBlocks
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.metadata.metadata_store import (
    BadVersionError,
    Node,
    NodeExistsError,
    NoNodeError,
    StoreClosedError,
)
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import InitProducerIdRequest
from tests.support.authorizers import PERMITS_ALL

CONTEXT = RequestContext(22, 5, "client", "User:ANONYMOUS", "PLAINTEXT", "127.0.0.1", 1)


class FakeStore:
    """A store with one node. Each operation takes a turn of the loop, so brokers can race."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.version = 0
        self.closed = False
        self.writes = 0

    async def get(self, path: str) -> Node:
        assert path == BLOCK_PATH
        await asyncio.sleep(0)
        if self.closed:
            raise StoreClosedError
        if self.data is None:
            raise NoNodeError(path)
        return Node(self.data, self.version, 0, 0, 0, 0)

    async def create(self, path: str, data: bytes = b"") -> str:
        await asyncio.sleep(0)
        if self.data is not None:
            raise NodeExistsError(path)
        self.data = data
        self.writes += 1
        return path

    async def set(self, path: str, data: bytes, version: int = -1) -> int:
        await asyncio.sleep(0)
        if version != self.version:
            raise BadVersionError(path)
        self.data = data
        self.version += 1
        self.writes += 1
        return self.version


def broker(store: FakeStore, broker_id: int = 0) -> ProducerIds:
    return ProducerIds(StoredBlocks(store, broker_id))  # type: ignore[arg-type]  # as much of a store as is used


async def test_ids_are_unique_over_brokers_and_restarts() -> None:
    store = FakeStore()
    seen: list[int] = []
    for _ in range(3):
        a, b = broker(store, 1), broker(store, 2)
        seen += await asyncio.gather(*(p.next_id() for _ in range(700) for p in (a, b)))
    assert len(set(seen)) == len(seen)
    assert min(seen) == 0


async def test_a_block_costs_one_write() -> None:
    store = FakeStore()
    ids = broker(store)
    assert [await ids.next_id() for _ in range(450)] == list(range(450))
    assert store.writes == 1
    assert msgspec.json.decode(store.data or b"") == {
        "version": 1,
        "broker": 0,
        "block_start": "0",
        "block_end": "999",
    }


async def test_without_the_store_clients_ask_again() -> None:
    store = FakeStore()
    store.closed = True
    ids = broker(store)
    with pytest.raises(KafkaError) as caught:
        await ids.next_id()
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    store.closed = False
    assert await ids.next_id() == 0


async def test_a_damaged_node_is_never_guessed_at() -> None:
    store = FakeStore()
    store.data = b'{"version":1,"broker":0,"block_start":"10","block_end":"x"}'
    with pytest.raises(KafkaError) as caught:
        await broker(store).next_id()
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert store.data.endswith(b'"x"}')


async def ask(ids: ProducerIds, **fields: object) -> tuple[int, int, int]:
    nobody = cast(TransactionCoordinator, None)
    request = InitProducerIdRequest(**fields)  # type: ignore[arg-type]  # typed by the message
    answer = await k22_init_producer_id.handle(ids, nobody, PERMITS_ALL, CONTEXT, request)
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def test_epochs_are_bumped_and_a_retry_is_answered_alike() -> None:
    store = FakeStore()
    ids = broker(store)
    assert await ask(ids, transactional_id=None) == (0, 0, 0)
    again = {"transactional_id": None, "producer_id": 0, "producer_epoch": 0}
    assert await ask(ids, **again) == await ask(broker(store), **again) == (0, 0, 1)
    assert await ask(ids, transactional_id=None, producer_id=0, producer_epoch=EPOCH_MAX) == (0, 1, 0)
    assert await ask(ids, transactional_id=None, producer_id=77_777, producer_epoch=3) == (0, 2, 0)
    for half in ({"producer_id": 5}, {"producer_epoch": 5}):
        assert await ask(ids, transactional_id=None, **half) == (ErrorCode.INVALID_REQUEST, -1, -1)


async def test_an_empty_text_is_no_transactional_id() -> None:
    ids = broker(FakeStore())
    assert (await ask(ids, transactional_id=""))[0] == ErrorCode.INVALID_REQUEST


async def test_on_the_embedded_store(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "metadata.db")
    try:
        assert await ProducerIds(StoredBlocks(store, 0)).next_id() == 0
        assert await ProducerIds(StoredBlocks(store, 0)).next_id() == 1_000
    finally:
        await store.close()
