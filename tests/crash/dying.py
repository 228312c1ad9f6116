"""Shared by brokers that kill themselves at a named step."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from pybroker.broker.lifecycle.app import Broker
from pybroker.broker.metadata.metadata_store import Operation
from pybroker.broker.metadata.sqlite_store import EmbeddedStore


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_store(step: str, kind_of: Callable[[Sequence[Operation]], str]) -> None:
    """Die before or after the store has executed the multi whose kind `step` names."""
    write = EmbeddedStore.multi

    async def multi(self: EmbeddedStore, operations: Sequence[Operation]) -> Any:
        kind = kind_of(operations)
        if step == f"before {kind} is stored":
            die()
        results = await write(self, operations)
        if step == f"after {kind} is stored":
            die()
        return results

    EmbeddedStore.multi = multi  # type: ignore[method-assign]  # the steps lie in the store's own code


async def until_told(broker: Broker) -> None:
    """Report that the started broker is ready; stop it on SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    await stop.wait()
    await broker.stop()
