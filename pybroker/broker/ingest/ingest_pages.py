"""Paged listings of ingests, so that encoding a page blocks the event loop for some milliseconds only.

A page has the first ingests after a cursor, in key order. One pass over all ingests finds them; it keeps two pages
at most and can be interrupted anywhere. No state is kept between pages.
"""

from __future__ import annotations

from operator import itemgetter

from pybroker.broker.ingest.ingests import IngestView
from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING, NO_BATCH, OPEN, IngestRecord
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

PAGE_ENTRIES_MAX = 10_000
"""Ingests and their partitions in one page, about a megabyte; a single larger ingest still gets a page."""

BEHIND_BATCHES = 10**20 - 1
"""The position of a stream's commit: after its open batches, so that a commit between two pages is not missed, and
equal for all batches, so that a stream cannot outrun a listing."""


def cursor(record: IngestRecord) -> str:
    """Return the sort key of an ingest, which is also the cursor after it.

    The key is unique. For an ingest without batches it does not change when the ingest is committed.
    """
    of_stream = record.state != OPEN and record.batch_id != NO_BATCH
    return f"{record.topic_id}/{record.ingest_id}/{BEHIND_BATCHES if of_stream else record.batch_id:020d}"


class Page:
    """One page. The caller checks `takes`, then `add`s, and finally calls `close`."""

    def __init__(self, after: str | None) -> None:
        self._after = after or ""
        self._last: str | None = None
        """The last ingest of the page, once ingests were left out."""
        self._found: list[tuple[str, IngestView]] = []
        self._entries = 0

    def takes(self, view: IngestView) -> bool:
        """Return whether the ingest is after the cursor and before the ingests left out so far."""
        at = cursor(view.record)
        return at > self._after and (self._last is None or at < self._last)

    def add(self, view: IngestView) -> None:
        """Add an ingest for which `takes` is true."""
        self._found.append((cursor(view.record), view))
        self._entries += entries_of(view)
        if self._entries > 2 * PAGE_ENTRIES_MAX:
            self._cut()

    def close(self) -> tuple[list[IngestView], str | None]:
        """Return the page and the next cursor, None after the last page."""
        self._cut()
        return [view for _, view in self._found], self._last

    def _cut(self) -> None:
        self._found.sort(key=itemgetter(0))
        entries = 0
        for count, (_, view) in enumerate(self._found):
            more = entries_of(view)
            if count and entries + more > PAGE_ENTRIES_MAX:
                del self._found[count:]
                self._last = self._found[-1][0]
                break
            entries += more
        self._entries = entries


def entries_of(view: IngestView) -> int:
    """Return the entries of an ingest in a page: the ingest and its partitions."""
    return 1 + len(view.record.partitions) + len(view.staged)


NAMED_MAX = 10
"""Maximum number of partitions in an error message."""

ABSENT = 3

_WIRE = {OPEN: 0, COMMITTING: 1, COMMITTED: 2}


def wire_state(state: str | None) -> int:
    """Return the wire code of a state; None: there is no such ingest."""
    return ABSENT if state is None else _WIRE[state]


def lost_error(record: IngestRecord) -> KafkaError | None:
    """Return LOG_DIR_NOT_FOUND for a committed ingest that has lost records; None for others."""
    if record.state != COMMITTED or not record.lost:
        return None
    return KafkaError(
        ErrorCode.LOG_DIR_NOT_FOUND,
        "The ingest is committed, but every replica that had staged its records for partitions "
        f"{sorted(record.lost)[:NAMED_MAX]} has lost them (their disks are empty). Those records are lost.",
    )
