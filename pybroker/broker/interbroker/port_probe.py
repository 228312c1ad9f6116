"""Probe of a broker's port: the operating system refuses connections for a dead process at once. The probe cannot
detect a hanging process or an unreachable machine."""

from __future__ import annotations

import asyncio
import socket

REFUSED_S = 0.3
"""How long a port must refuse until its process counts as dead: longer than a restart or a moment without a
listener."""
TRY_EVERY_S = 0.05


async def refuses(host: str, port: int) -> bool:
    """Return whether every connection is refused for `REFUSED_S`; False as soon as one is not."""
    loop = asyncio.get_running_loop()
    end = loop.time() + REFUSED_S
    while await _refuses_now(host, port):
        if loop.time() >= end:
            return True
        await asyncio.sleep(TRY_EVERY_S)
    return False


async def _refuses_now(host: str, port: int) -> bool:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as one:
            one.setblocking(False)
            try:
                async with asyncio.timeout(REFUSED_S):
                    await loop.sock_connect(one, address)
            except ConnectionRefusedError:
                continue
            except (OSError, TimeoutError):
                return False
            return False
    return bool(found)
