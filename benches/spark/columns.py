"""Who is compared: a connector, its options, and the broker that it talks to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KAFKA = "kafka"
# What a bulk load gives Spark's connector; without it, it writes at half the rate.
TUNED = {"kafka.batch.size": "1048576", "kafka.linger.ms": "20"}


@dataclass(frozen=True)
class Column:
    """A column of the table; `broker` is one of `benches.compare.peers.PEERS`."""

    name: str
    broker: str
    format: str = "pybroker"
    write: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)


COLUMNS = (
    Column(KAFKA, "kafka", "kafka", TUNED),
    Column("append os", "pybroker os", write={"mode": "append"}),
    Column("append", "pybroker", write={"mode": "append"}),
    Column("exactly-once os", "pybroker os", write={"mode": "exactly-once"}),
    Column("exactly-once", "pybroker", write={"mode": "exactly-once"}),
)
