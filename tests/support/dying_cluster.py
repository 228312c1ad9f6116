"""A broker of a cluster that kills itself at a named step of a staged ingest or of a deletion.

`python -m tests.support.dying_cluster FOLDER start --set node.id=1 …`: the process ends when it reaches the step that
is named in `FOLDER/step-1`. The product does not know the steps: they are between two consecutive actions of its
control plane. Tests in Rust kill the process within native calls (`native/storage/src/ingest/tests`).
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pybroker.broker.controller.decision import Decision
from pybroker.broker.controller.quorum_writer import QuorumWriter
from pybroker.broker.ingest.ingest_leader import IngestLeader
from pybroker.broker.metadata.control_messages import StopReplicaRequest, StopReplicaResponse
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_store import Operation
from pybroker.broker.metadata.zookeeper_store import ZooKeeperStore
from pybroker.broker.replicas.replica_manager import ReplicaManager
from tests.ingest.child import kind_of


def step_file(folder: Path, broker: int) -> Path:
    """Return the file that names the step at which the broker ends."""
    return folder / f"step-{broker}"


class Steps:
    """The step at which this process ends."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def at(self, step: str) -> None:
        """Report that the process has reached a step."""
        try:
            wanted = self._file.read_text()
        except FileNotFoundError:
            return
        if wanted == step:
            os.kill(os.getpid(), signal.SIGKILL)


class DyingIngests:
    """Wraps native ingests, and ends the process before or after one of the calls."""

    def __init__(self, native: Any, steps: Steps) -> None:
        self._native = native
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)

        def call(*arguments: Any) -> Any:
            self._steps.at(f"before {name}")
            result = found(*arguments)
            self._steps.at(f"after {name}")
            return result

        return call


def _die_when_put_aside(steps: Steps) -> None:
    """End the process when a replica's directory has been moved to `deleting/` and the move has not been reported yet.
    """
    stop = ReplicaManager.stop_replica

    async def dying(self: ReplicaManager, request: StopReplicaRequest) -> StopReplicaResponse:
        answer = await stop(self, request)
        steps.at("after replicas are put aside")
        return answer

    ReplicaManager.stop_replica = dying  # type: ignore[method-assign]


def main() -> None:
    """Insert the steps into the product, and start it."""
    folder, *rest = sys.argv[1:]
    [broker] = [one.removeprefix("node.id=") for one in rest if one.startswith("node.id=")]
    steps = Steps(step_file(Path(folder), int(broker)))
    make, write, propose = IngestLeader.__init__, ZooKeeperStore.multi, QuorumWriter.write_decision

    def dying(self: IngestLeader, native: Any) -> None:
        make(self, DyingIngests(native, steps))  # type: ignore[arg-type]  # all that it calls is there

    async def multi(self: ZooKeeperStore, operations: Sequence[Operation]) -> Any:
        kind = kind_of(operations)
        steps.at(f"before {kind} is stored")
        results = await write(self, operations)
        steps.at(f"after {kind} is stored")
        return results

    async def decide(self: QuorumWriter, before: ClusterImage, decision: Decision, *more: Any) -> int:
        # A decision contains store operations even if they are not used.
        kind = kind_of(decision.operations)
        steps.at(f"before {kind} is stored")
        end = await propose(self, before, decision, *more)
        steps.at(f"after {kind} is stored")
        return end

    IngestLeader.__init__ = dying  # type: ignore[method-assign]
    ZooKeeperStore.multi = multi  # type: ignore[method-assign]
    QuorumWriter.write_decision = decide  # type: ignore[method-assign, assignment]
    _die_when_put_aside(steps)
    sys.argv = ["pybroker", *rest]
    runpy.run_module("pybroker", run_name="__main__")


if __name__ == "__main__":
    main()
