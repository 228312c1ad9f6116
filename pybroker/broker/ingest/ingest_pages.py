"""Paged listings of ingests. Paging limits the time in which one response is encoded, and the event loop blocked, to
some milliseconds.

A page has the first ingests after a cursor, in key order. A single pass over all ingests finds the page. The pass keeps
two pages at most in memory and can be interrupted anywhere. No state is kept between pages.
"""

from __future__ import annotations

from operator import itemgetter

from pybroker.broker.ingest.ingests import IngestView
from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING, NO_BATCH, OPEN, IngestRecord
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

PAGE_ENTRIES_MAX = 10_000
"""Limit of ingests and their partitions in one page, about a megabyte. An ingest that exceeds the limit alone gets its
own page."""

BEHIND_BATCHES = 10**20 - 1
"""The position of a stream's commits in the key order. It is after the stream's open batches, so that a listing does
not miss a batch that is committed between two pages. The position is the same for all batches, so that new commits of a
stream do not appear repeatedly in one listing.
"""


def cursor(record: IngestRecord) -> str:
    """Return the sort key of an ingest. As a cursor, the key means the position after the ingest.

    The key is unique. For an ingest without batches it does not change when the ingest is committed.
    """
    of_stream = record.state != OPEN and record.batch_id != NO_BATCH
    return f"{record.topic_id}/{record.ingest_id}/{BEHIND_BATCHES if of_stream else record.batch_id:020d}"


class Page:
    """One page. The caller checks `takes`, then `add`s, and finally calls `close`."""

    def __init__(self, after: str | None) -> None:
        self._after = after or ""
        self._last: str | None = None
        """The last ingest of the page; None until an ingest has not fitted into the page."""
        self._found: list[tuple[str, IngestView]] = []
        self._entries = 0

    def takes(self, view: IngestView) -> bool:
        """Return whether the ingest is after the cursor, and before all ingests that have not fitted so far."""
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
    """Return how many entries an ingest needs in a page: one for the ingest itself, and one for each of its partitions.
    """
    return 1 + len(view.record.partitions) + len(view.staged)


NAMED_MAX = 10
"""Limit of partitions named in an error message."""

ABSENT = 3

_WIRE = {OPEN: 0, COMMITTING: 1, COMMITTED: 2}


def wire_state(state: str | None) -> int:
    """Return the wire code of a state. None means that the ingest does not exist."""
    return ABSENT if state is None else _WIRE[state]


def lost_error(record: IngestRecord) -> KafkaError | None:
    """Return LOG_DIR_NOT_FOUND for a committed ingest that has lost records; None for any other ingest."""
    if record.state != COMMITTED or not record.lost:
        return None
    return KafkaError(
        ErrorCode.LOG_DIR_NOT_FOUND,
        "The ingest is committed, but every replica that had staged its records for partitions "
        f"{sorted(record.lost)[:NAMED_MAX]} has lost them (their disks are empty). Those records are lost.",
    )
