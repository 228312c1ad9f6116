"""A topic's history as a list of events: the events of all incarnations of a name, newest first, without duplicates
(for `pybroker topics history` and the console).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pybroker.client.admin.incarnation_types import TopicIncarnation
from pybroker.native import Uuid

_WORDS = {
    "create": "created",
    "auto-create": "auto-created",
    "delete": "deleted",
    "truncate": "truncated",
    "undelete": "undeleted",
    "purge": "purged",
}


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event in a topic's history.

    what: created, auto-created, deleted, undeleted, renamed, truncated, purged; comma-separated if one step combines
    several of them. at_ms: milliseconds since 1970. name: the topic's name after the event, None if the caller may not
    see it. details: further facts, or "".
    """

    at_ms: int
    what: str
    name: str | None
    topic_id: Uuid
    by: str | None
    details: str


def topic_events(incarnations: Iterable[TopicIncarnation]) -> list[HistoryEvent]:
    """Return the events of these incarnations. A truncation ends one incarnation and creates the next; it is listed
    only as an event of the old incarnation.
    """
    known = list(incarnations)
    replaced = {incarnation.successor_id for incarnation in known if incarnation.successor_id is not None}
    events = [
        event for incarnation in known for event in _events_of(incarnation, skip_first=incarnation.topic_id in replaced)
    ]
    # The sort is stable, so events of the same millisecond stay in order. The final reversal reverses their order too.
    events.sort(key=lambda event: event.at_ms)
    events.reverse()
    return events


def _events_of(one: TopicIncarnation, *, skip_first: bool) -> Iterator[HistoryEvent]:
    if not one.events:
        # None if the topic is older than the brokers' first release that records histories.
        if one.created_ms is not None:
            yield HistoryEvent(one.created_ms, "created", one.name, one.topic_id, one.created_by, "")
        if one.deleted_ms is not None:
            what = _WORDS.get(one.deleted_how or "", one.deleted_how or "deleted")
            yield HistoryEvent(one.deleted_ms, what, one.name, one.topic_id, one.deleted_by, _ends(one))
        return
    last = len(one.events) - 1
    name = one.events[0].name
    for number, event in enumerate(one.events):
        what, details = _WORDS.get(event.what, event.what), ""
        if event.what == "undelete" and event.name != name:
            what, details = f"{what}, renamed", f"before: {name}" if name else ""
        elif event.what == "truncate" and number == 0:
            if skip_first:
                continue
            details = "started empty"
        elif event.what in ("delete", "truncate") and number == _end_event(one):
            details = _ends(one) if one.successor_id is None else f"new id {one.successor_id}"
        elif event.what == "purge" and number == last:
            details = "data removed" if one.state == "removed" else "removing data"
        yield HistoryEvent(event.at_ms, what, event.name, one.topic_id, event.by, details)
        name = event.name


def _end_event(one: TopicIncarnation) -> int:
    """Return the index of the event that ended the incarnation; -1 if it is live."""
    if one.deleted_ms is None:
        return -1
    ends = [number for number, event in enumerate(one.events) if event.what in ("delete", "truncate")]
    return ends[-1] if ends else -1


def _ends(one: TopicIncarnation) -> str:
    known = [f"{part.partition}:{part.log_end_offset}" for part in one.partitions if part.log_end_offset is not None]
    return f"log ends {', '.join(known)}" if known else ""
