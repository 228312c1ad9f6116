"""What goes into a producer and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pybroker.native import Uuid

HeaderList = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to be sent. partition: None = by the key. timestamp: milliseconds, None = now.

    It knows no cluster id: plug-ins learn that by `ClusterResourceListener` (KIP-78).
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
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


def header_list(headers: Any) -> HeaderList:
    """Headers as a mapping or as pairs; text values become UTF-8."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
