"""The leader epochs in a partition directory, read without opening its log."""

from __future__ import annotations

import logging
from pathlib import Path

from pybroker.files import read_bounded

log = logging.getLogger(__name__)

EPOCH_CHECKPOINT_BYTES_MAX = 1 << 20
EPOCH_MAX = (1 << 31) - 1


def last_epoch(directory: Path) -> int:
    """Return the highest leader epoch in a directory; -1 if there is none. An unreadable checkpoint proves nothing and
    counts as EPOCH_MAX."""
    path = directory / "leader-epoch-checkpoint"
    try:
        lines = read_bounded(path, EPOCH_CHECKPOINT_BYTES_MAX).decode("ascii").split("\n")
        return max((int(line.split(" ")[0]) for line in lines[2:] if line), default=-1)
    except FileNotFoundError:
        return -1
    except (OSError, ValueError) as problem:
        log.error("cannot read a leader epoch checkpoint path=%s: %s", path, problem)
        return EPOCH_MAX
