"""A broker that dies when it writes a named record of a transaction: `python -m tests.transactions.dies_writing FILE
start …`.

FILE names the record and the moment, for example "PREPARE_COMMIT before": the broker dies before it appends the record
to the log. "PREPARE_COMMIT after": it dies when the record is on disk, before it responds. The names are the states in
`__transaction_state`, MARKER for a marker in a partition, and OFFSETS for offsets in the offsets topic. The broker
removes FILE when it dies, and does not die without FILE.
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
"""The broker's exit code when it dies."""


class Death:
    """The place at which the broker dies."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def at(self, record: str, moment: str) -> None:
        """End the process if FILE names this record and moment. In a cluster, only the broker that removes FILE
        dies."""
        try:
            if self._file.read_text() != f"{record} {moment}":
                return
            self._file.unlink()
        except FileNotFoundError:
            return
        os._exit(DIED)


def die_at(death: Death) -> None:
    """Intercept all writes of a transaction coordinator."""
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
            # The same producer has another partition in its transaction, and that partition already has a marker.
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
