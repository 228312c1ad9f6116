"""A broker that dies before the controller has the offsets that it sends late: `python -m tests.cluster.dies_keeping
FOLDER start …`. Broker N dies if `FOLDER/die-N` exists."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.admin.restored_offsets import LateOffsets

WRITTEN_S = 1.0
"""Delay that is long enough for everything that the coordinator writes without waiting for the controller."""


def _die(flag: Path) -> None:
    send, is_due = LateOffsets._send, flag.exists

    async def dying(this: LateOffsets, *event: Any) -> None:
        if is_due():
            await asyncio.sleep(WRITTEN_S)
            os.kill(os.getpid(), signal.SIGKILL)
        await send(this, *event)

    LateOffsets._send = dying  # type: ignore[assignment, method-assign]  # for this process


if __name__ == "__main__":
    where = Path(sys.argv.pop(1))
    (number,) = (word.removeprefix("node.id=") for word in sys.argv if word.startswith("node.id="))
    _die(where / f"die-{number}")
    main()
