"""Whether visible records may be lost since a broker's previous run.

| the previous run | since then | visible records are |
|---|---|---|
| ended with a clean stop, or there was none | – | intact |
| ended otherwise, `log.flush.mode=commit` | – | intact: only records on disk are ever visible |
| ended otherwise, `log.flush.mode=os` | the machine runs on | intact: the page cache outlives a process |
| ended otherwise, `log.flush.mode=os` | the machine was restarted, or it is unknown | perhaps lost |
| ended in any way | a log directory is gone, or another one is in its place | lost there |

The id in `meta.properties` identifies a log directory. If a directory is lost, the mark keeps its id until a run ends
cleanly and no replica waits for the directory's data.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pybroker.broker.metadata.znodes import RunningNode


class RunAssessment(NamedTuple):
    """The mark of a run that begins, and what may be lost since the previous run."""

    mark: RunningNode
    """True if the run is suspect: records that were visible before may be lost."""
    lost_directories: tuple[str, ...] = ()
    """Ids of log directories that the previous run had and this one lacks."""


def assess(before: RunningNode | None, now: RunningNode) -> RunAssessment:
    """Return the mark for the run `now`, which follows the run `before`."""
    if before is None:
        return RunAssessment(now)
    gone = set(before.directory_ids + before.gone) - set(now.directory_ids)
    new = gone - set(before.gone)
    intact = not (new or before.suspect) and (before.stopped or _outlived(before, now))
    mark = msgspec.structs.replace(now, gone=tuple(sorted(gone)), suspect=not intact)
    return RunAssessment(mark, tuple(sorted(new)))


def _outlived(before: RunningNode, now: RunningNode) -> bool:
    return before.flush_mode == "commit" or (bool(now.boot_id) and before.boot_id == now.boot_id)
