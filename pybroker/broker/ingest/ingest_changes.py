"""The effects of a metadata change on one broker's ingests. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING, IngestRecord


class IngestChanges(NamedTuple):
    """Ingests whose state has changed."""

    opened: list[IngestRecord]
    """Ingests that accept appends now."""
    reopened: list[IngestRecord]
    """Ingests whose prepared commit was not decided. They accept appends again."""
    over: list[IngestRecord]
    """Ingests whose files can be removed, because the ingest has ended, was replaced by a new epoch, or is linked on
    all replicas."""
    may_attach: bool
    """True if a commit was decided or partition leaders have changed, so that this broker may have to link segments."""


def changes_of(before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> IngestChanges:
    """Return the changes from `before` to `after`."""
    opened, reopened, over = [], [], []
    for old, new in _open_pairs(before, after, change):
        if new is not None and (old is None or old.epoch != new.epoch):
            opened.append(new)
        elif old is not None and new is not None and old.reopened != new.reopened:
            reopened.append(new)
        # Keep the files of a committed ingest until all its segments are linked.
        if old is not None and (new is None or old.epoch != new.epoch) and not _is_attached(after, old):
            over.append(old)
    for old, new in _committed_pairs(before, after, change):
        if old is not None and old.state == COMMITTING and (new is None or new.key != old.key):
            # The controller has forgotten the ingest together with its topic.
            over.append(old)
        if new is not None and new.state == COMMITTED and (old is None or old != new):
            over.append(new)
    # If a topic is already known, a delta contains only the changed partition states.
    may_attach = isinstance(change, ClusterImage) or bool(change.topics or change.states or change.committed_ingests)
    return IngestChanges(opened, reopened, over, may_attach)


def _is_attached(after: ClusterImage, record: IngestRecord) -> bool:
    commit = after.commit_of(record.key)
    return commit is not None and commit.directory == record.directory and commit.state == COMMITTING


def _open_pairs(
    before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage
) -> Iterator[tuple[IngestRecord | None, IngestRecord | None]]:
    if isinstance(change, ClusterImage):
        keys = before.ingests.keys() | after.ingests.keys()
    else:
        keys = {record.key for record in change.ingests} | set(change.ended_ingests)
    for key in keys:
        yield before.ingests.get(key), after.ingests.get(key)


def _committed_pairs(
    before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage
) -> Iterator[tuple[IngestRecord | None, IngestRecord | None]]:
    if isinstance(change, ClusterImage):
        keys = before.committed_ingests.keys() | after.committed_ingests.keys()
    else:
        keys = {record.series for record in change.committed_ingests} | set(change.forgotten_ingests)
    for key in keys:
        yield before.committed_ingests.get(key), after.committed_ingests.get(key)
