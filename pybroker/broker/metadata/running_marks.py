"""Determines whether records that were visible may have been lost since a broker's previous run.

| the previous run | since then | visible records are |
|---|---|---|
| ended with a clean stop, or there was none | – | intact |
| ended otherwise, `log.flush.mode=commit` | – | intact: only records on disk are ever visible |
| ended otherwise, `log.flush.mode=os` | the machine has kept running | intact: they were in the page cache |
| ended otherwise, `log.flush.mode=os` | the machine was restarted, or that is unknown | possibly lost |
| ended in any way | a log directory is missing or replaced | lost in that directory |

The id in `meta.properties` identifies a log directory. The running mark keeps the id of a lost directory until a run
ends cleanly and no replica waits for the directory's data.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pybroker.broker.metadata.znodes import RunningNode


class RunAssessment(NamedTuple):
    """The running mark of a run that begins, and what may be lost since the previous run."""

    mark: RunningNode
    """The mark to write. Its `suspect` is True if records that were visible before may be lost."""
    lost_directories: tuple[str, ...] = ()
    """Ids of log directories that the previous run had and that the new run does not have."""


def assess(before: RunningNode | None, now: RunningNode) -> RunAssessment:
    """Return the running mark for the run `now`, which follows the run `before`."""
    if before is None:
        return RunAssessment(now)
    gone = set(before.directory_ids + before.gone) - set(now.directory_ids)
    new = gone - set(before.gone)
    intact = not (new or before.suspect) and (before.stopped or _outlived(before, now))
    mark = msgspec.structs.replace(now, gone=tuple(sorted(gone)), suspect=not intact)
    return RunAssessment(mark, tuple(sorted(new)))


def _outlived(before: RunningNode, now: RunningNode) -> bool:
    return before.flush_mode == "commit" or (bool(now.boot_id) and before.boot_id == now.boot_id)
