"""A broker that kills itself at a named step.

`python -m tests.crash.child DIRECTORY PORT [STEP]`

The steps lie between two things that the control plane does one after another; the product itself knows nothing of
them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, cast

from pybroker.app import Broker
from pybroker.config import load_config
from pybroker.metadata import znodes
from pybroker.metadata.embedded import EmbeddedStore
from pybroker.metadata.store import Create, Delete, Operation, Set
from pybroker.native import NativeBroker

TOPIC = "crashing"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingNative:
    """The native core, with a death before or after one of its calls."""

    def __init__(self, native: NativeBroker, step: str) -> None:
        self._native = native
        self._step = step
        self.armed = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if name not in ("apply_partitions", "stop_partitions", "publish_metadata", "purge"):
            return found

        def call(*arguments: Any) -> Any:
            if self.armed and self._step == f"before {name}":
                die()
            result = found(*arguments)
            if self.armed and self._step == f"after {name}":
                die()
            return result

        return call


def kind_of(operations: Sequence[Operation]) -> str:
    """Which change a multi makes."""
    for operation in operations:
        if operation.path == znodes.topic_path(TOPIC):
            return {Create: "create", Delete: "delete", Set: "grow"}.get(type(operation), "")
        if operation.path.startswith(znodes.STAGED + "/"):
            return "promise"
        if isinstance(operation, Set) and operation.path.startswith(znodes.DELETED_TOPICS):
            return "staged"
    return ""


def die_in_store(step: str) -> None:
    write = EmbeddedStore.multi

    async def multi(self: EmbeddedStore, operations: Sequence[Operation]) -> Any:
        kind = kind_of(operations)
        if step == f"before {kind} is stored":
            die()
        results = await write(self, operations)
        if step == f"after {kind} is stored":
            die()
        return results

    EmbeddedStore.multi = multi  # type: ignore[method-assign]


async def run(directory: str, port: str, step: str) -> None:
    settings = [f"log.dirs={directory}", f"listeners=PLAINTEXT://127.0.0.1:{port}", "auto.create.topics.enable=false"]
    if "purge" in step:
        settings.append("delete.topic.delay.ms=0")
    config, _ = load_config(None, settings)
    made: list[DyingNative] = []

    def make_native(**arguments: Any) -> NativeBroker:
        made.append(DyingNative(NativeBroker(**arguments), step))
        return cast(NativeBroker, made[0])

    die_in_store(step)
    broker = Broker(config, make_native=make_native)
    await broker.start()
    made[0].armed = True
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    await stop.wait()
    await broker.stop()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
