"""Log lines about created and deleted topics. A request causes one INFO line, even if it names many topics."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pybroker.broker.cluster.events import BY_BROKER, CreatedTopic, DeletedTopic, PurgedTopic, TruncatedTopic
from pybroker.printable import time_text

log = logging.getLogger(__name__)

SHOWN_MAX = 100
"""Limit of topics named in one line."""


def log_created(by: str, topics: Sequence[CreatedTopic]) -> None:
    """Log the creation of topics."""
    if topics:
        shown = [(f"{topic.name} id={topic.topic_id}", f"partitions={topic.num_partitions}") for topic in topics]
        log.info("%s", _line("created", by, shown), extra={"event": "topics_created"})


def log_deleted(by: str, topics: Sequence[DeletedTopic], remove_after_ms: int) -> None:
    """Log the deletion of topics. `remove_after_ms` is the earliest time at which brokers remove their data."""
    if topics:
        shown = [(f"{topic.name} id={topic.topic_id}", "") for topic in topics]
        back = _way_back(remove_after_ms, [topic.topic_id for topic in topics])
        log.info("%s", _line("deleted", by, shown, back), extra={"event": "topics_deleted"})


def log_truncated(by: str, topics: Sequence[TruncatedTopic], remove_after_ms: int) -> None:
    """Log the truncation of topics. `remove_after_ms` is the earliest time at which brokers remove the data of the old
    incarnations.
    """
    if topics:
        shown = [(f"{topic.name} id={topic.topic_id}", f"old_id={topic.old_id}") for topic in topics]
        back = _way_back(remove_after_ms, [topic.old_id for topic in topics], " --as NAME")
        log.info("%s", _line("truncated", by, shown, back), extra={"event": "topics_truncated"})


def log_purged(by: str, topics: Sequence[PurgedTopic], delay_ms: int) -> None:
    """Log that the data of deleted topics is removed at once (`delay_ms` 0) or earlier than planned."""
    if topics and delay_ms:
        shown = [
            (f"{topic.name} id={topic.topic_id}", f"remove_after={time_text(topic.remove_after_ms)}")
            for topic in topics
        ]
        log.info("%s", _line("deletion shortened", by, shown), extra={"event": "deletions_shortened"})
    elif topics:
        shown = [(f"{topic.name} id={topic.topic_id}", "") for topic in topics]
        back = "(every broker removes the data now)"
        log.info("%s", _line("purged", by, shown, back), extra={"event": "topics_purged"})


def _line(event: str, by: str, topics: Sequence[tuple[str, str]], more: str = "") -> str:
    """Return the line of an event. `topics`: names with ids. They come after the other fields, because a long line is
    cut off at the end."""
    shown = [" ".join(filter(None, each)) for each in topics[:SHOWN_MAX]]
    # Quote names that come from clients.
    common = " ".join(filter(None, [f"by={by if by == BY_BROKER else repr(by)}", more]))
    if len(topics) == 1:
        return f"topic {event} name={shown[0]} {common}"
    left_out = f" and {len(topics) - SHOWN_MAX} more" if len(topics) > SHOWN_MAX else ""
    return f"topics {event} count={len(topics)} {common} topics=[{'; '.join(shown)}]{left_out}"


def _way_back(remove_after_ms: int, ids: Sequence[object], option: str = "") -> str:
    which = ids[0] if len(ids) == 1 else "ID"
    until = time_text(remove_after_ms)
    return f"undeletable_until={until} (`pybroker topics undelete {which}{option}` brings it back)"
