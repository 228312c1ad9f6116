"""A broker that dies at a named record of a transaction: `python -m tests.transactions.dies_writing FILE start …`.

The file says where, e.g. "PREPARE_COMMIT before": with what is to be stored and not yet given to the log; "after": it
is on disk, and nobody has heard of it. States of `__transaction_state`; MARKER: in partitions; OFFSETS: in the offsets
topic. It takes the file with it. No file: it lives.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.coordinators.shards.appends import NativeAppends
from pybroker.broker.coordinators.transaction.shard import TransactionShard
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

DIED = 9
"""The exit code."""


class Death:
    """Places where the broker dies."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def at(self, record: str, moment: str) -> None:
        """Die here if the file says so; in a cluster only one broker does."""
        try:
            if self._file.read_text() != f"{record} {moment}":
                return
            self._file.unlink()
        except FileNotFoundError:
            return
        os._exit(DIED)


def die_at(death: Death) -> None:
    """Watch all writes of a transaction coordinator."""
    store, append, append_marker = TransactionShard.store, NativeAppends.append, NativeAppends.append_marker
    ending: tuple[int, int] | None = None

    def storing(shard: TransactionShard, entry: Any, change: Any, stored: Any) -> None:
        death.at(change.state.name, "before")

        def callback(code: ErrorCode) -> None:
            death.at(change.state.name, "after")
            stored(code)

        store(shard, entry, change, callback)

    def appending(
        appends: NativeAppends,
        *args: Any,
        callback: Callable[[int, int], None],
        producer: tuple[int, int] | None = None,
    ) -> Any:
        if producer is None:
            return append(appends, *args, callback=callback)
        death.at("OFFSETS", "before")

        def ended(code: int, base_offset: int) -> None:
            if not code:
                death.at("OFFSETS", "after")
            callback(code, base_offset)

        at_once = append(appends, *args, callback=ended, producer=producer)
        if at_once is not None and not at_once[0]:
            death.at("OFFSETS", "after")
        return at_once

    def marking(
        appends: NativeAppends, topic_id: Uuid, partition: int, marker: tuple[int, int, int], *args: Any, **named: Any
    ) -> Any:
        nonlocal ending
        death.at("MARKER", "before")
        if ending == marker[:2]:
            # From the same producer: another partition of its transaction already has a marker.
            death.at("MARKER", "between")
        ending = marker[:2]
        return append_marker(appends, topic_id, partition, marker, *args, **named)

    for kind, name, function in (
        (TransactionShard, "store", storing),
        (NativeAppends, "append", appending),
        (NativeAppends, "append_marker", marking),
    ):
        setattr(kind, name, function)  # for this process


if __name__ == "__main__":
    die_at(Death(Path(sys.argv.pop(1))))
    main()
