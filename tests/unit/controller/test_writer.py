"""A write whose response was lost is applied once, whether it had succeeded or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from pybroker.broker.controller.activation import take_leadership
from pybroker.broker.controller.decision_writer import ResignedError, Writer
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import (
    PART_OPERATIONS_MAX,
    Create,
    MetadataStore,
    Node,
    Operation,
    OperationResult,
    Set,
    UnavailableError,
    UnknownOutcomeError,
    ensure_path,
)
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class Trouble:
    """A store whose next multis end as the test sets; otherwise the real store."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.coming: list[str] = []
        self.multis = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        self.multis += 1
        what = self.coming.pop(0) if self.coming else "fine"
        if what == "away":
            raise UnavailableError("away")
        if what == "lost before":
            raise UnknownOutcomeError("lost")
        done = await self._store.multi(operations)
        if what == "lost after":
            raise UnknownOutcomeError("lost")
        return done


@pytest_asyncio.fixture
async def trouble(tmp_path: Path) -> AsyncIterator[Trouble]:
    store = await EmbeddedStore.open(tmp_path)
    for path in (znodes.DECISIONS, znodes.OFFICES):
        await ensure_path(store, path)
    yield Trouble(store)
    await store.close()


async def writer_on(trouble: Trouble) -> Writer:
    store: MetadataStore = trouble  # type: ignore[assignment]  # has everything that the real one has
    return Writer(store, await take_leadership(store, 1, 0))


@pytest.mark.parametrize("what", ["away", "lost before", "lost after"])
async def test_it_is_written_once(trouble: Trouble, what: str) -> None:
    writer = await writer_on(trouble)
    before = int((await trouble.get(znodes.DECISIONS)).data)  # type: ignore[operator]  # taking the office is one
    for name in ("/a", "/b"):
        trouble.coming = [what, what]
        # A second Create of the same node would be refused.
        await writer.write([Create(name)])
        assert await trouble.exists(name) is not None  # type: ignore[operator]
    assert int((await trouble.get(znodes.DECISIONS)).data) == before + 2  # type: ignore[operator]


async def test_a_successor_may_have_it_and_nobody_asks_again(trouble: Trouble) -> None:
    writer = await writer_on(trouble)

    async def successor(operations: Sequence[Operation]) -> list[OperationResult]:
        node = await trouble.get(znodes.CONTROLLER_EPOCH)  # type: ignore[operator]
        await trouble._store.multi([Set(znodes.CONTROLLER_EPOCH, b"9", node.version)])
        raise UnknownOutcomeError("lost")

    trouble.multi = successor  # type: ignore[method-assign]
    with pytest.raises(ResignedError) as refused:
        await writer.write([Create("/a")])
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    del trouble.multi
    with pytest.raises(ResignedError) as refused:
        await writer.write([Create("/a")])
    assert refused.value.code == ErrorCode.NOT_CONTROLLER, "this one was certainly not written"


async def test_the_number_of_a_successor_that_comes_between_two_looks_is_not_ones_own(trouble: Trouble) -> None:
    writer = await writer_on(trouble)
    real = trouble._store
    count = int((await real.get(znodes.DECISIONS)).data)
    looked: list[str] = []

    async def look(path: str) -> Node:
        found = await real.get(path)
        if not looked:
            epoch = await real.get(znodes.CONTROLLER_EPOCH)
            took = Set(znodes.CONTROLLER_EPOCH, b"9", epoch.version)
            await real.multi([took, Set(znodes.DECISIONS, str(count + 1).encode())])
        looked.append(path)
        return found

    trouble.get = look  # type: ignore[attr-defined]
    trouble.coming = ["lost before"]
    with pytest.raises(ResignedError):
        await writer.write([Create("/a")])
    assert set(looked) == {znodes.CONTROLLER_EPOCH, znodes.DECISIONS}
    assert await real.exists("/a") is None


async def test_a_server_that_is_behind_is_not_believed(trouble: Trouble) -> None:
    writer = await writer_on(trouble)
    real = trouble._store
    behind = await real.get(znodes.DECISIONS)
    synced: list[bool] = []

    async def sync() -> None:
        synced.append(True)

    async def look(path: str) -> Node:
        return behind if path == znodes.DECISIONS and not synced else await real.get(path)

    trouble.sync, trouble.get = sync, look  # type: ignore[attr-defined]
    trouble.coming = ["lost after"]
    # A second Create of the same node would be refused.
    await writer.write([Create("/a")])
    assert await real.exists("/a") is not None


async def test_who_gives_up_waits_for_no_store(trouble: Trouble) -> None:
    writer = await writer_on(trouble)
    writer.give_up()
    trouble.coming = ["away"]
    with pytest.raises(ResignedError):
        await writer.write([Create("/a")])


async def test_what_is_separable_is_written_in_parts_and_else_is_refused(trouble: Trouble) -> None:
    writer = await writer_on(trouble)
    many = [Create(f"/n{number}") for number in range(2 * PART_OPERATIONS_MAX + 1)]
    before = trouble.multis
    await writer.write(many, separable=True)
    assert trouble.multis == before + 3
    large = [Create("/large", b"x" * (2 << 20))]
    with pytest.raises(KafkaError) as refused:
        await writer.write(large)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.checklist("R35")
async def test_what_has_not_begun_in_time_is_not_written_later(trouble: Trouble) -> None:
    writer = await writer_on(trouble)
    trouble.coming = ["away"]
    with pytest.raises(KafkaError) as caught:
        await writer.write([Create("/late")], begin_by=0.0)
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert await trouble.exists("/late") is None  # type: ignore[operator]
    # The writer finds out whether an uncertain write was applied.
    trouble.coming = ["lost after"]
    await writer.write([Create("/perhaps")], begin_by=0.0)
    assert await trouble.exists("/perhaps") is not None  # type: ignore[operator]
