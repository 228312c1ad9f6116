"""A broker that dies when it writes a named record of a streams group: `python -m tests.streams.dies_writing FILE start
…`.

FILE works as in `tests.groups.dies_writing`, with the record names of streams groups.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pybroker.__main__ import main
from tests.groups.dies_writing import NAMES, die_at
from tests.transactions.dies_writing import Death

OF_STREAMS = {
    17: "GROUP",
    19: "MEMBER",
    20: "TARGET_EPOCH",
    21: "TARGET",
    22: "CURRENT",
    23: "TOPOLOGY",
}


if __name__ == "__main__":
    NAMES.update(OF_STREAMS)
    die_at(Death(Path(sys.argv.pop(1))))
    main()
