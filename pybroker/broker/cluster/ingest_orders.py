"""Orders for the two-phase prepare of a staged ingest, as plain values. The committing broker sends them to the other
brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pybroker.broker.metadata.ingest_records import IngestKey

ListedFields = tuple[int, int, int, int, int, int]
"""The fields of a `ListedAttempt`: partition, writer, attempt, rows, bytes, checksum."""


class PrepareIngest(msgspec.Struct, frozen=True):
    """Bring the listed attempts to disk, in the order of the list, and accept no more appends."""

    key: IngestKey
    epoch: int
    plan: int
    leads: bool
    """True if the receiver leads these partitions. A leader sends the other replicas the records that they lack."""
    holders: dict[int, tuple[int, ...]]
    """The in-sync replicas by partition."""
    listed: tuple[ListedFields, ...]


class IngestPeers(Protocol):
    """The other brokers, for the broker that commits."""

    async def prepare(self, broker_id: int, order: PrepareIngest) -> Mapping[int, tuple[int, int]]:
        """Return rows and bytes by partition. Raises KafkaError with the broker's reason if it refuses,
        REQUEST_TIMED_OUT if it does not answer.
        """
        ...
