"""A broker that kills itself at a named step of a staged ingest.

`python -m tests.ingest.child DIRECTORY PORT [STEP]`

The steps are between two consecutive actions of the control plane; the product itself does not know them. Rust's own
tests (`native/storage/src/ingest/tests.rs`) kill the process within native calls.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Any, cast

from pybroker.broker.lifecycle.app import Broker
from pybroker.broker.metadata.ingest_records import COMMITTED, INGEST_COMMITTED, INGEST_OPEN, decode_ingest
from pybroker.broker.metadata.metadata_store import Create, Delete, Operation, Set
from pybroker.config import load_config
from pybroker.native import NativeBroker
from tests.crash.dying import die, die_in_store, until_told


class DyingIngests:
    """Native ingests that die before or after one of the calls; "2nd attach" counts the calls."""

    def __init__(self, native: Any, step: str) -> None:
        self._native = native
        self._step = step
        self._lock = threading.Lock()
        self._attached = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)

        def call(*arguments: Any) -> Any:
            if name == "attach" and "attach" in self._step:
                # Run them one after the other, so that a step means the same in each run.
                with self._lock:
                    return self._counted(found, arguments)
            if self._step == f"before {name}":
                die()
            result = found(*arguments)
            if self._step == f"after {name}":
                die()
            return result

        return call

    def _counted(self, attach: Any, arguments: Any) -> Any:
        self._attached += 1
        if self._step == f"before attach {self._attached}":
            die()
        result = attach(*arguments)
        if self._step == f"after attach {self._attached}":
            die()
        return result


class DyingNative:
    """The native core, which dies in calls for ingests."""

    def __init__(self, native: NativeBroker, step: str) -> None:
        self._native = native
        self._ingests = DyingIngests(native.ingests, step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    @property
    def ingests(self) -> Any:
        return self._ingests


def kind_of(operations: Sequence[Operation]) -> str:
    """Return the kind of change that a multi makes to an ingest."""
    for operation in operations:
        if operation.path.startswith(INGEST_OPEN + "/"):
            if isinstance(operation, Create | Set):
                return "begin"
            continue
        # The parent node of a topic's commits has no data.
        if operation.path.startswith(INGEST_COMMITTED + "/") and isinstance(operation, Create | Set) and operation.data:
            record = decode_ingest(operation.path, operation.data)
            return "finish" if record.state == COMMITTED else "commit"
    if any(isinstance(one, Delete) and one.path.startswith(INGEST_OPEN + "/") for one in operations):
        return "abort"
    return ""


async def run(directory: str, port: str, step: str) -> None:
    settings = [f"log.dirs={directory}", f"listeners=PLAINTEXT://127.0.0.1:{port}", "log.segment.bytes=1048576"]
    if step.startswith("link "):
        # Without this setting, so few records would be copied instead of linked.
        settings.append("ingest.copy.bytes.max=0")
        step = step.removeprefix("link ")
    config, _ = load_config(None, settings)

    def make_native(**arguments: Any) -> NativeBroker:
        return cast(NativeBroker, DyingNative(NativeBroker(**arguments), step))

    die_in_store(step, kind_of)
    broker = Broker(config, make_native=make_native)
    await broker.start()
    await until_told(broker)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
