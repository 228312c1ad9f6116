"""A broker that records the controllers' messages: `python -m tests.cluster.hears FOLDER start …`. Each message is a
line of JSON in `FOLDER/heard-<node.id>`.

While `FOLDER/loses-<node.id>` exists, the broker executes no StopReplica and answers that its disk failed. As
controller it repeats StopReplica after `RETRY_S`, `RETRIES_MAX` times.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from pybroker.__main__ import main
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.controller import deletion_tracker
from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    LeaderAndIsrRequest,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicPartitionErrors,
    UpdateMetadataRequest,
)
from pybroker.protocol.error_codes import ErrorCode

WRITTEN = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
RETRY_S = 1.0
RETRIES_MAX = 3


def _write_down(file: Path, loses: Path) -> None:
    handle = ControlReceiver.handle

    async def heard(receiver: ControlReceiver, request: ControlRequest, **how: Any) -> Any:
        if isinstance(request, StopReplicaRequest) and os.path.exists(loses):  # noqa: ASYNC240  # a moment
            answer: Any = _failed(request)
        else:
            answer = await handle(receiver, request, **how)
        if isinstance(request, WRITTEN):
            line = {"said": type(request).__name__, "at": time.time(), **msgspec.to_builtins(request, enc_hook=str)}
            with file.open("ab") as out:
                out.write(msgspec.json.encode(line) + b"\n")
        return answer

    ControlReceiver.handle = heard  # type: ignore[method-assign]  # for this process


def _failed(request: StopReplicaRequest) -> StopReplicaResponse:
    failed = int(ErrorCode.KAFKA_STORAGE_ERROR)
    topics = [
        TopicPartitionErrors(
            topic.topic_id, [PartitionError(one.partition_index, failed) for one in topic.partition_states]
        )
        for topic in request.topic_states
    ]
    return StopReplicaResponse(0, topics)


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    (number,) = (word.removeprefix("node.id=") for word in sys.argv if word.startswith("node.id="))
    _write_down(folder / f"heard-{number}", folder / f"loses-{number}")
    deletion_tracker.RETRY_S, deletion_tracker.RETRIES_MAX = RETRY_S, RETRIES_MAX
    main()
