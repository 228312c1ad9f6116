"""The composition root: builds every object, start order, stop order. Nothing else constructs services."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pybroker.config import Listener
from pybroker.services import Services


class Broker:
    """One broker in this process. `start` returns when clients are served; `stop` when everything is on disk.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.services: Services | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with a FatalError when the broker must stop (a failed commit of the store); `foreground`
        waits for it.
        """

    @property
    def endpoints(self) -> tuple[Listener, ...]:
        """The addresses that the listeners got, once started; `foreground` and the test broker tell them."""
        return ()

    async def start(self) -> None:
        """Opens the store and the log directories, becomes controller, applies all partitions, then accepts
        clients.

        Raises StartError with one clear sentence for whatever the operator can mend.
        """

    async def stop(self) -> None:
        """Stops in the order of R24; bounded by `shutdown.timeout.ms`."""
