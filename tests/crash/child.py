"""A broker that kills itself at a named step.

`python -m tests.crash.child DIRECTORY PORT [STEP [SETTING=VALUE …] [armed]]`; with `armed`, native calls count from the
start on.

The steps are between two consecutive actions of the control plane; the product itself does not know them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, cast

from pybroker.broker.lifecycle.app import Broker
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import Create, Delete, Operation, Set
from pybroker.config import load_config
from pybroker.native import NativeBroker
from tests.crash.dying import die, die_in_store, until_told

TOPIC = "crashing"
CALLS = {
    "partitions.apply": "apply_partitions",
    "partitions.stop": "stop_partitions",
    "metadata.publish": "publish_metadata",
    "log_dirs.purge": "purge",
    "partitions.restore": "restore_partitions",
    "partitions.set_fenced": "set_fenced",
    "set_settings": "set_broker_settings",
}
"""The names of the steps."""
SUBJECTS = {call.split(".")[0] for call in CALLS if "." in call}


class DyingNative:
    """The native core, or one of its objects, which dies before or after one of its calls."""

    def __init__(self, native: Any, step: str, path: str = "", root: DyingNative | None = None) -> None:
        self._native = native
        self._step = step
        self._path = path
        self._root = root or self
        self.armed = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if not self._path and name in SUBJECTS:
            return DyingNative(found, self._step, f"{name}.", self)
        called = CALLS.get(self._path + name)
        if called is None:
            return found

        def call(*arguments: Any) -> Any:
            if self._root.armed and self._step == f"before {called}":
                die()
            result = found(*arguments)
            if self._root.armed and self._step == f"after {called}":
                die()
            return result

        return call


def kind_of(operations: Sequence[Operation]) -> str:
    """Return the kind of change that a multi makes."""
    if any(one.path == znodes.old_deletion_path(TOPIC) for one in operations):
        return "delete" if any(isinstance(one, Create) for one in operations) else "staged"
    if any(one.path == znodes.topic_id_path(TOPIC) and isinstance(one, Delete) for one in operations):
        return "ids shown"
    if any(one.path.startswith(znodes.BROKER_CONFIGS + "/") for one in operations):
        return "raise"
    on_topic = {type(operation) for operation in operations if operation.path == znodes.topic_path(TOPIC)}
    if on_topic == {Create, Delete}:
        return "truncate"
    if any(isinstance(one, Set) and b'"state":"undeleting"' in one.data for one in operations):
        return "undeleting"
    on_record = {type(one) for one in operations if one.path.startswith(znodes.DELETED_TOPICS + "/")}
    if on_topic == {Create} and on_record:
        return "live"
    if not on_topic and on_record == {Delete}:
        return "finished"
    for operation in operations:
        if operation.path == znodes.topic_path(TOPIC):
            return {Create: "create", Delete: "delete", Set: "grow"}.get(type(operation), "")
        if operation.path.startswith(znodes.STAGED + "/"):
            return "promise"
        if isinstance(operation, Set) and operation.path.startswith(znodes.DELETED_TOPICS):
            return "staged"
    return ""


async def run(directory: str, port: str, step: str, *more: str) -> None:
    from_the_start = "armed" in more
    more = tuple(one for one in more if one != "armed")
    settings = [
        f"log.dirs={directory}",
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        "auto.create.topics.enable=false",
        *more,
    ]
    if "purge" in step:
        settings.append("delete.topic.delay.ms=0")
    config, _ = load_config(None, settings)
    made: list[DyingNative] = []

    def make_native(**arguments: Any) -> NativeBroker:
        made.append(DyingNative(NativeBroker(**arguments), step))
        made[0].armed = from_the_start
        return cast(NativeBroker, made[0])

    die_in_store(step, kind_of)
    broker = Broker(config, make_native=make_native)
    await broker.start()
    made[0].armed = True
    await until_told(broker)


if __name__ == "__main__":
    asyncio.run(run(*[*sys.argv[1:], ""][: max(3, len(sys.argv) - 1)]))
