"""What goes into a producer and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pybroker.client.times import Moment
from pybroker.native import Uuid

HeaderList = tuple[tuple[str, bytes | None], ...]
Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
"""What a caller may give as headers; text values become UTF-8."""


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to be sent. partition: None = by the key. timestamp: milliseconds or a datetime, None = now.

    It knows no cluster id: plug-ins learn that by `ClusterResourceListener` (KIP-78).
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: Moment | None = None
    headers: HeaderList = ()


class RecordMetadata(NamedTuple):
    """Where a record went. offset: -1 where the broker does not say (acks=0, a duplicate it had already written).

    timestamp: the record's own, or the broker's if the topic stamps LogAppendTime. topic_id: the incarnation that
    holds it; Uuid.ZERO from brokers without ids.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    topic_id: Uuid


def header_list(headers: Headers | None) -> HeaderList:
    """Headers as they are sent."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
