"""A broker that waits for the test before it registers: `python -m tests.cluster.registers_late FOLDER start …`. It
creates `FOLDER/registering` and waits for `FOLDER/go`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.replicas.broker_registration import BrokerRegistration


def _register_late(folder: Path) -> None:
    register = BrokerRegistration.register

    async def late(membership: BrokerRegistration, *what: Any, **more: Any) -> int:
        (folder / "registering").touch()
        while not (folder / "go").exists():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.02)
        return await register(membership, *what, **more)

    BrokerRegistration.register = late  # type: ignore[method-assign]  # for this process


if __name__ == "__main__":
    _register_late(Path(sys.argv.pop(1)))
    main()
