"""The columns: a connector, its options, and its broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KAFKA = "kafka"
# Bulk load settings of Spark's connector; without them it writes at half the rate.
TUNED = {"kafka.batch.size": "1048576", "kafka.linger.ms": "20"}


@dataclass(frozen=True)
class Column:
    """A column of the table; `broker` is one of `benches.compare.peers.PEERS`."""

    name: str
    broker: str
    format: str = "pybroker"
    write: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    sync_bytes: int = 0
    """Bytes after which the broker syncs a file: each request with acks=all; 4 MiB of staged data."""


COLUMNS = (
    Column(KAFKA, "kafka", "kafka", TUNED),
    Column("append os", "pybroker os", write={"mode": "append"}),
    Column("append", "pybroker", write={"mode": "append"}, sync_bytes=1 << 20),
    Column("exactly-once os", "pybroker os", write={"mode": "exactly-once"}, sync_bytes=4 << 20),
    Column("exactly-once", "pybroker", write={"mode": "exactly-once"}, sync_bytes=4 << 20),
)
