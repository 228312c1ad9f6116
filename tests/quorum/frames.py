"""JSON frames, each preceded by its length."""

from __future__ import annotations

import asyncio
import json
from typing import Any


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """Return the next frame; None at the end of the connection."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return json.loads(await reader.readexactly(size))
    except asyncio.IncompleteReadError:
        return None


def write_frame(writer: asyncio.StreamWriter, frame: Any) -> None:
    data = json.dumps(frame).encode()
    writer.write(len(data).to_bytes(4, "big") + data)
