"""ZooKeeper's `multiRead` (key 22, servers from 3.6 on), which kazoo does not have: many reads in one request.

A read of its own costs 150 µs of CPU here, most of it in kazoo's loop; one of several hundred in a request 10 µs. The
start of a controller reads a node for each partition of the cluster.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol.states import ZnodeStat

GET_DATA = 4
GET_CHILDREN = 8
_ERROR = -1
_END = -1

_INT = struct.Struct("!i")
_HEADER = struct.Struct("!i?i")
"""Type of the operation, whether it is the end, error."""
_STAT = struct.Struct("!qqqqiiiqiiq")


class MultiRead:
    """A request in the form that kazoo's connection sends: each path's value (GET_DATA) or children (GET_CHILDREN). A
    node that is missing costs nobody else his answer."""

    type = 22

    def __init__(self, kind: int, paths: Sequence[str]) -> None:
        self.kind = kind
        self.paths = paths

    def serialize(self) -> bytes:
        """The request's body."""
        parts = []
        head = _HEADER.pack(self.kind, False, _END)
        for path in self.paths:
            name = path.encode()
            # The last byte: no watch.
            parts.append(head + _INT.pack(len(name)) + name + b"\0")
        parts.append(_HEADER.pack(_END, True, _END))
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[tuple[bytes, ZnodeStat] | list[str] | None]:
        """An answer for each path, None where there is no node. Raises kazoo's exception of any other error."""
        results: list[tuple[bytes, ZnodeStat] | list[str] | None] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return results
            if kind == _ERROR:
                code = _INT.unpack_from(buffer, offset)[0]
                offset += _INT.size
                if code != NoNodeError.code:
                    raise EXCEPTIONS[code]()
                results.append(None)
            elif kind == GET_DATA:
                data, offset = _bytes(buffer, offset)
                results.append((data, ZnodeStat._make(_STAT.unpack_from(buffer, offset))))
                offset += _STAT.size
            else:
                count = _INT.unpack_from(buffer, offset)[0]
                offset += _INT.size
                names = []
                for _ in range(count):
                    name, offset = _bytes(buffer, offset)
                    names.append(name.decode())
                results.append(names)


def _bytes(buffer: bytes, offset: int) -> tuple[bytes, int]:
    length = _INT.unpack_from(buffer, offset)[0]
    start = offset + _INT.size
    end = start + max(0, length)
    return bytes(buffer[start:end]), end
