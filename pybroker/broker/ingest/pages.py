"""A listing of ingests in pages, so that encoding one holds the event loop for some milliseconds only.

A page has the first ingests after a cursor in the order of their keys. They are found in one pass over all of them,
which keeps two pages at most and can be interrupted anywhere; nothing is remembered between pages.
"""

from __future__ import annotations

from operator import itemgetter

from pybroker.broker.ingest.ingests import IngestView
from pybroker.broker.metadata.ingest_records import NO_BATCH, OPEN, IngestRecord

PAGE_ENTRIES_MAX = 10_000
"""Ingests and partitions of ingests in one page, but for one ingest that has more: a megabyte at most."""

BEHIND_BATCHES = 10**20 - 1
"""Where a stream's commit stands: behind its open batches, so that one that is committed between two pages is not
missed, and at the same place for every batch, so that no stream runs ahead of a listing."""


def cursor(record: IngestRecord) -> str:
    """What orders ingests, and names one as the end of a page: unique, and of an ingest without batches the same
    once it is committed."""
    of_stream = record.state != OPEN and record.batch_id != NO_BATCH
    return f"{record.topic_id}/{record.ingest_id}/{BEHIND_BATCHES if of_stream else record.batch_id:020d}"


class Page:
    """See the module. Asks `takes`, then `add`s; `close` at the end."""

    def __init__(self, after: str | None) -> None:
        self._after = after or ""
        self._last: str | None = None
        """Once something was left out: the last ingest that was not."""
        self._found: list[tuple[str, IngestView]] = []
        self._entries = 0

    def takes(self, view: IngestView) -> bool:
        """Whether it comes after the cursor, and not behind what is left out already."""
        at = cursor(view.record)
        return at > self._after and (self._last is None or at < self._last)

    def add(self, view: IngestView) -> None:
        """One that `takes` has let in."""
        self._found.append((cursor(view.record), view))
        self._entries += entries_of(view)
        if self._entries > 2 * PAGE_ENTRIES_MAX:
            self._cut()

    def close(self) -> tuple[list[IngestView], str | None]:
        """The page, and the cursor for the next one; None: there is none."""
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
    """What an ingest takes in a page: itself and its partitions."""
    return 1 + len(view.record.partitions) + len(view.staged)
