"""What a port says of the process behind it: the system refuses connections for one that is gone, at once. Of a process
that hangs, or of a machine that is away, nothing is learned here."""

from __future__ import annotations

import asyncio
import socket

REFUSED_S = 0.3
"""For how long a port refuses before its process counts as dead: a restart or a moment without a listener is less."""
TRY_EVERY_S = 0.05


async def refuses(host: str, port: int) -> bool:
    """Whether every connection is refused for `REFUSED_S`; false as soon as one was not."""
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
