"""What a broker that commits a staged ingest has the other brokers do before the decision: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pybroker.broker.metadata.ingest_records import IngestKey

ListedFields = tuple[int, int, int, int, int, int]
"""Of a `ListedAttempt`: partition, writer, attempt, rows, bytes, checksum."""


class PrepareIngest(msgspec.Struct, frozen=True):
    """Have on disk what is listed, in that order, and take no more appends."""

    key: IngestKey
    epoch: int
    plan: int
    leads: bool
    """The one who is told leads these partitions, and brings the other holders what they lack."""
    holders: dict[int, tuple[int, ...]]
    """By partition: the replicas in sync."""
    listed: tuple[ListedFields, ...]


class Colleagues(Protocol):
    """The other brokers."""

    async def prepare(self, broker_id: int, order: PrepareIngest) -> Mapping[int, tuple[int, int]]:
        """Rows and bytes by partition. Raises KafkaError: why not, REQUEST_TIMED_OUT if there is no answer."""
        ...
