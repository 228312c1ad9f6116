"""A broker that shows clients a change half a second after the controller's message: `python -m
tests.cluster.shows_late start …`."""

from __future__ import annotations

import asyncio
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.metadata.control_messages import ControlRequest, UpdateMetadataRequest

LATE_S = 0.5


def _show_late() -> None:
    execute = ControlReceiver.execute

    async def late(receiver: ControlReceiver, request: ControlRequest, **how: Any) -> Any:
        if isinstance(request, UpdateMetadataRequest):
            await asyncio.sleep(LATE_S)
        return await execute(receiver, request, **how)

    ControlReceiver.execute = late  # type: ignore[method-assign]  # for this process


if __name__ == "__main__":
    _show_late()
    main()
