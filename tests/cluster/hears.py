"""A broker that writes down what controllers say to it: `python -m tests.cluster.hears FOLDER start …`, a line of JSON
for each message in `FOLDER/heard-<node.id>`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from pybroker.__main__ import main
from pybroker.api.control import ControlReceiver
from pybroker.metadata.control_messages import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

WRITTEN = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


def _write_down(file: Path) -> None:
    handle = ControlReceiver.handle

    async def heard(receiver: ControlReceiver, request: ControlRequest, **how: Any) -> Any:
        answer = await handle(receiver, request, **how)
        if isinstance(request, WRITTEN):
            line = {"said": type(request).__name__, **msgspec.to_builtins(request, enc_hook=str)}
            with file.open("ab") as out:
                out.write(msgspec.json.encode(line) + b"\n")
        return answer

    ControlReceiver.handle = heard  # type: ignore[method-assign]  # for this process


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    (number,) = (word.removeprefix("node.id=") for word in sys.argv if word.startswith("node.id="))
    _write_down(folder / f"heard-{number}")
    main()
