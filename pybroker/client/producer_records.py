"""Records for producers, and the metadata of written records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pybroker.client.offset_types import Moment
from pybroker.native import Uuid

HeaderList = tuple[tuple[str, bytes | None], ...]
Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
"""Headers as a caller may give them; text values become UTF-8."""


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to send. partition: None = by the key. timestamp: milliseconds since 1970 or a datetime, None = now.

    It has no cluster id: plug-ins get that from `ClusterResourceListener` (KIP-78).
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: Moment | None = None
    headers: HeaderList = ()


class RecordMetadata(NamedTuple):
    """The position of a written record. offset: -1 if the broker does not report it (acks=0, a duplicate).

    timestamp: milliseconds since 1970; the record's own timestamp or, if the topic uses LogAppendTime, the broker's.
    topic_id: the incarnation that contains the record; Uuid.ZERO from brokers without topic ids.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    topic_id: Uuid


def header_list(headers: Headers | None) -> HeaderList:
    """Return headers in their wire form."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
