"""A broker that dies when it writes a named record of a group: `python -m tests.groups.dies_writing FILE start …`.

FILE names the record and the moment, for example "TARGET before": the broker dies before it appends the record to the
log. "TARGET after": it dies when the record is on disk, before it responds. "TARGET gone before": the record is a
tombstone. The broker removes FILE when it dies, and does not die without FILE.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from pybroker.__main__ import main
from pybroker.broker.coordinators.shards.interfaces import Record
from pybroker.broker.coordinators.shards.log import ShardLog, Written
from pybroker.protocol.error_codes import ErrorCode
from tests.transactions.dies_writing import Death

NAMES = {
    0: "OFFSET",
    1: "OFFSET",
    2: "CLASSIC",
    3: "GROUP",
    4: "TOPICS",
    5: "MEMBER",
    6: "TARGET_EPOCH",
    7: "TARGET",
    8: "CURRENT",
    16: "REGEX",
}
"""Names of records, by the key type with which each key of `__consumer_offsets` begins."""


def named(record: Record) -> str:
    """Return the record's name in FILE."""
    key, value = record
    assert key is not None
    (kind,) = struct.unpack_from(">h", key)
    return NAMES[kind] if value is not None else f"{NAMES[kind]} gone"


def die_at(death: Death) -> None:
    """Intercept all writes of a group coordinator."""
    write = ShardLog.write

    def writing(shard_log: ShardLog, records: Sequence[Record], written: Written) -> None:
        names = {named(record) for record in records}
        for name in names:
            death.at(name, "before")

        def told(error: ErrorCode, offset: int) -> None:
            if error is ErrorCode.NONE:
                for name in names:
                    death.at(name, "after")
            written(error, offset)

        write(shard_log, records, told)

    setattr(ShardLog, "write", writing)  # noqa: B010 (for this process)


if __name__ == "__main__":
    die_at(Death(Path(sys.argv.pop(1))))
    main()
