"""A broker that dies when it writes a named record of a share group's state: `python -m tests.share.dies_writing FILE
start …`.

FILE works as in `tests.groups.dies_writing`. INITIALIZE: the group begins in a partition. READ: the partition's leader
reads the state. WRITE: acknowledgements of members. FOLD: a write that stores the whole state. DELETE: the state is
deleted. LETTER: a record for the dead letter queue.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.broker.coordinators.share_state.shard import ShareStateShard
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.protocol.error_codes import ErrorCode
from tests.transactions.dies_writing import Death


def die_at(death: Death) -> None:
    """Intercept all writes of a share coordinator."""

    def watched(name: Callable[[ShareStateShard, Key], str], method: Callable[..., None]) -> Callable[..., None]:
        def called(shard: ShareStateShard, key: Key, *args: Any) -> None:
            record, done = name(shard, key), args[-1]
            death.at(record, "before")

            def told(error: ErrorCode, *answer: Any) -> None:
                if error is ErrorCode.NONE:
                    death.at(record, "after")
                done(error, *answer)

            method(shard, key, *args[:-1], told)

        return called

    def written(shard: ShareStateShard, key: Key) -> str:
        entry = shard.entries.get(key)
        return "FOLD" if entry is not None and entry.updates else "WRITE"

    for name, record in (
        ("initialize", lambda *_: "INITIALIZE"),
        ("read", lambda *_: "READ"),
        ("write", written),
        ("delete", lambda *_: "DELETE"),
    ):
        setattr(ShareStateShard, name, watched(record, getattr(ShareStateShard, name)))  # for this process

    append = DeadLetterAppends.append

    async def letter(appends: DeadLetterAppends, *args: Any) -> None:
        death.at("LETTER", "before")
        await append(appends, *args)
        death.at("LETTER", "after")

    DeadLetterAppends.append = letter  # type: ignore[method-assign]  # for this process


if __name__ == "__main__":
    die_at(Death(Path(sys.argv.pop(1))))
    main()
