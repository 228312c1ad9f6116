"""A broker that dies when it gets a LeaderAndIsr, while a file exists: `python -m tests.cluster.dies_told FILE start
…`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.metadata.control_messages import ControlRequest, LeaderAndIsrRequest

DIED = 9
"""The broker's exit code when it dies."""


def _die_told(file: Path) -> None:
    execute = ControlReceiver.execute

    async def told(receiver: ControlReceiver, request: ControlRequest, **more: Any) -> Any:
        if isinstance(request, LeaderAndIsrRequest) and os.path.exists(file):  # noqa: ASYNC240  # a moment
            os._exit(DIED)
        return await execute(receiver, request, **more)

    ControlReceiver.execute = told  # type: ignore[method-assign]  # for this process


if __name__ == "__main__":
    _die_told(Path(sys.argv.pop(1)))
    main()
