"""A broker that loses orders of the controller: `python -m tests.cluster.loses_orders FOLDER start …`.

As long as these files exist in FOLDER, broker N has the fault. `lose-leaders-N`: it loses every LeaderAndIsr that is
not FULL. `mend-nothing-N`: it does not correct the differences that it finds. `die-when-closed-N`: as the controller,
it kills itself between the fencing of topics and the decision.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.controller.write_fence import ClosedTopics, WriteFences
from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrType,
    PartitionError,
    TopicPartitionErrors,
)
from pybroker.broker.metadata.image import ClusterImage, TopicImage
from pybroker.broker.replicas.role_reconciler import Mismatch, RoleReconciler

LEADERS, MENDING, CLOSED = "lose-leaders", "mend-nothing", "die-when-closed"


def flag(folder: Path, what: str, broker: int) -> Path:
    """Return the path of the file that switches this fault on."""
    return folder / f"{what}-{broker}"


def _done(request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        0,
        [
            TopicPartitionErrors(
                topic.topic_id, [PartitionError(one.partition_index, 0) for one in topic.partition_states]
            )
            for topic in request.topic_states
        ],
    )


def _lose(folder: Path, broker: int) -> None:
    losing = flag(folder, LEADERS, broker)
    handle, mend, close = ControlReceiver.handle, RoleReconciler._mend, WriteFences.close

    async def heard(receiver: ControlReceiver, request: ControlRequest, **how: Any) -> ControlResponse:
        if isinstance(request, LeaderAndIsrRequest) and request.type != LeaderAndIsrType.FULL and losing.exists():
            return _done(request)
        return await handle(receiver, request, **how)

    async def mending(reconciler: RoleReconciler, mismatch: Mismatch) -> None:
        if not flag(folder, MENDING, broker).exists():
            await mend(reconciler, mismatch)

    async def closing(this: WriteFences, image: ClusterImage, topics: Sequence[TopicImage]) -> ClosedTopics:
        closed = await close(this, image, topics)
        if flag(folder, CLOSED, broker).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return closed

    ControlReceiver.handle = heard  # type: ignore[method-assign]  # for this process
    RoleReconciler._mend = mending  # type: ignore[method-assign]
    WriteFences.close = closing  # type: ignore[method-assign]


if __name__ == "__main__":
    where = Path(sys.argv.pop(1))
    (number,) = (word.removeprefix("node.id=") for word in sys.argv if word.startswith("node.id="))
    _lose(where, int(number))
    main()
