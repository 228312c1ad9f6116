"""A broker that dies at a named record of a group: `python -m tests.groups.dies_writing FILE start …`.

The file says where, e.g. "TARGET before": with what is to be stored and not yet given to the log; "after": it is on
disk, and nobody has heard of it. "TARGET gone": the record that buries one. It takes the file with it. No file: it
lives.
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
    5: "MEMBER",
    6: "TARGET_EPOCH",
    7: "TARGET",
    8: "CURRENT",
    16: "REGEX",
}
"""By the key type that begins each key of `__consumer_offsets`."""


def named(record: Record) -> str:
    """The record's name in the file."""
    key, value = record
    assert key is not None
    (kind,) = struct.unpack_from(">h", key)
    return NAMES[kind] if value is not None else f"{NAMES[kind]} gone"


def die_at(death: Death) -> None:
    """Watch all writes of a group coordinator."""
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
