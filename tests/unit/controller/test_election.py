"""The election releases the leadership of the named broker only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.controller.activation import take_leadership
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.controller_election import ControllerElection
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import Node, ensure_path, get_or_none
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.errors import FatalError

DEAD, FASTER, SLOWER = 1, 2, 3


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    opened = await EmbeddedStore.open(tmp_path)
    for path in (znodes.DECISIONS, znodes.OFFICES):
        await ensure_path(opened, path)
    yield opened
    await opened.close()


class RacedStore:
    """The slower broker's store. Between two of its calls, the faster broker becomes the controller."""

    def __init__(self, store: EmbeddedStore, after: str) -> None:
        self._store = store
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def get(self, path: str) -> Node:
        found = await self._store.get(path)
        if path == self._after:
            self._after = ""
            await self._store.delete(znodes.CONTROLLER)
            await take_leadership(self._store, FASTER, 0)
        return found


def election(store: Any, broker_id: int) -> ControllerElection:
    def make() -> Controller:
        raise AssertionError("nobody stands")

    def failed(problem: FatalError) -> None:
        raise problem

    fatal: Callable[[FatalError], None] = failed
    return ControllerElection(
        store=store, broker_id=broker_id, leadership=ControllerLeadership(), make_controller=make, on_fatal=fatal
    )


async def holder(store: EmbeddedStore) -> int | None:
    node = await get_or_none(store, znodes.CONTROLLER)
    return None if node is None else znodes.decode_controller(node.data)


@pytest.mark.checklist("R27")
async def test_a_dead_controller_is_unseated(store: EmbeddedStore) -> None:
    await take_leadership(store, DEAD, 0)
    await election(store, SLOWER).unseat(DEAD)
    assert await holder(store) is None
    await election(store, SLOWER).unseat(DEAD)


@pytest.mark.checklist("R27")
@pytest.mark.parametrize("after", [znodes.CONTROLLER_EPOCH, znodes.CONTROLLER])
async def test_who_has_taken_the_office_meanwhile_keeps_it(store: EmbeddedStore, after: str) -> None:
    """Two brokers find the same dead controller. The successor's node has the same version as the dead controller's
    node."""
    await take_leadership(store, DEAD, 0)
    await election(RacedStore(store, after), SLOWER).unseat(DEAD)
    assert await holder(store) == FASTER


@pytest.mark.checklist("R27")
async def test_who_leaves_after_another_has_taken_its_office_takes_nothing_from_it(store: EmbeddedStore) -> None:
    await take_leadership(store, DEAD, 0)
    await election(store, FASTER).unseat(DEAD)
    await take_leadership(store, FASTER, 0)
    leaving = election(store, DEAD)
    leaving._controller = IdleController()  # type: ignore[assignment]  # its term, of which it does not know that it is over
    await leaving.stop()
    assert await holder(store) == FASTER


class IdleController:
    """A controller with no pending work."""

    async def stop(self) -> None:
        """Return at once."""
