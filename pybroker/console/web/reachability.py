"""Checks whether the cluster is reachable. The check runs in parallel to each page that takes longer than QUICK_S."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pybroker.client import AuthenticationError
from pybroker.console.web.user_clients import Clients

Value = TypeVar("Value")

QUICK_S = 0.15
"""Seconds. Most pages are ready within this time."""
AGAIN_S = 1.0


class ClusterAwayError(Exception):
    """No broker responds; the text lists the attempts."""


async def while_reachable(clients: Clients, work: Coroutine[Any, Any, Value]) -> Value:
    """Return the result of `work`.

    Raises ClusterAwayError within a second if no broker responds; a client would retry for much longer.
    """
    task = asyncio.ensure_future(work)
    try:
        pause = QUICK_S
        while not (await asyncio.wait({task}, timeout=pause))[0]:
            pause = AGAIN_S
            probe = asyncio.ensure_future(clients.ping())
            await asyncio.wait({task, probe}, return_when=asyncio.FIRST_COMPLETED)
            if not probe.done():
                probe.cancel()
            elif not isinstance(problem := probe.exception(), AuthenticationError | None) and not task.done():
                raise ClusterAwayError(str(problem)) from problem
        return await task
    finally:
        task.cancel()
