"""A complete control plane with a FakeNative, shared by the unit tests of controller, admin and api."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from pybroker.broker.api.client_routes import client_routes
from pybroker.broker.clock import FakeClock
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.controller_election import SoleController
from pybroker.broker.lifecycle.app import Broker
from pybroker.broker.lifecycle.broker_parts import BrokerParts
from pybroker.broker.metadata.metadata_store import MetadataStore
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.requests.context import RequestContext
from pybroker.config import load_config
from pybroker.native import NativeBroker
from tests.support.fake_native import FakeNative


async def until(condition: Callable[[], object], seconds: int = 60) -> None:
    """Wait for a condition that no event announces."""
    for _ in range(100 * seconds):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"waited {seconds} s")


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Callable[[], int]]:
    """Yield a function that counts the turns of other tasks on the loop: work that blocks the loop gives them none."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    try:
        yield lambda: turns
    finally:
        beside.cancel()


class ControlPlane:
    """Starts and stops brokers on one data directory, as restarts do."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.settings = settings or {}
        self.clock = FakeClock()
        self.native = FakeNative()
        self.broker: Broker | None = None

    async def start(self) -> Broker:
        """Start a broker on the fake disk of the previous broker, and return it."""
        before, self.native = self.native, FakeNative()
        self.native.disk, self.native.staged = before.disk, before.staged
        self.native.failing = before.failing
        before.close()
        texts = [f"log.dirs={self.directory}", "listeners=PLAINTEXT://127.0.0.1:0"]
        texts += [f"{name}={value}" for name, value in self.settings.items()]
        config, _ = load_config(None, texts)
        self.broker = Broker(config, clock=self.clock, make_native=lambda **_: cast(NativeBroker, self.native))
        await self.broker.start()
        return self.broker

    async def stop(self) -> None:
        """Stop the broker cleanly."""
        if self.broker is not None:
            await self.broker.stop()
            self.broker = None

    async def kill(self) -> None:
        """End the broker without any of the steps of a stop: only the store's thread and lock are released."""
        assert self.broker is not None
        broker, self.broker = self.broker, None
        store = broker._store
        assert store is not None
        assert broker.parts is not None
        if broker._dispatcher is not None:
            broker._dispatcher.stop()
        await broker.parts.staging.stop()
        await broker.parts.services.groups.stop()
        await broker.parts.election.stop()
        assert isinstance(store, EmbeddedStore)
        store._closed = True
        await asyncio.get_running_loop().run_in_executor(store._executor, store._connection.close)  # type: ignore[union-attr]  # open: there is one
        store._executor.shutdown()
        store._lock.release()

    @property
    def controller(self) -> Controller:
        """Return the running broker's controller."""
        office = self.parts.election
        assert isinstance(office, SoleController)
        return office._controller

    @property
    def parts(self) -> BrokerParts:
        """Return the running broker's components."""
        assert self.broker is not None
        assert self.broker.parts is not None
        return self.broker.parts

    @property
    def store(self) -> MetadataStore:
        """Return the running broker's store."""
        assert self.broker is not None
        assert self.broker._store is not None
        return self.broker._store

    async def call(self, api_key: int, message: Any, version: int = 0) -> Any:
        """Return the response that a client would get."""
        assert self.broker is not None
        assert self.broker.services is not None
        handler = client_routes(self.broker.services)[api_key]
        context = RequestContext(api_key, version, "test", "User:ANONYMOUS", "PLAINTEXT", "127.0.0.1", 1)
        outcome = handler(context, message)
        return await outcome if asyncio.iscoroutine(outcome) else outcome
