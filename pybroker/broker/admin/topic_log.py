"""Log lines of created and deleted topics: one INFO line per request, however many topics it names."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pybroker.broker.cluster.events import BY_BROKER, CreatedTopic, DeletedTopic, PurgedTopic, TruncatedTopic
from pybroker.broker.metadata.times import time_text

log = logging.getLogger(__name__)

SHOWN_MAX = 100
"""Limit of topics in one line."""


def log_created(by: str, topics: Sequence[CreatedTopic]) -> None:
    """Log the creation of topics."""
    if topics:
        told = [f"{topic.name} (id {topic.topic_id}, partitions: {topic.num_partitions})" for topic in topics]
        log.info("%s created %s", _who(by), _listed(told), extra={"event": "topics_created"})


def log_deleted(by: str, topics: Sequence[DeletedTopic], remove_after_ms: int) -> None:
    """Log the deletion of topics. `remove_after_ms` is the earliest time of removing their data."""
    if topics:
        told = [f"{topic.name} (id {topic.topic_id})" for topic in topics]
        back = _way_back(remove_after_ms, [topic.topic_id for topic in topics])
        log.info("%s deleted %s; %s", _who(by), _listed(told), back, extra={"event": "topics_deleted"})


def log_truncated(by: str, topics: Sequence[TruncatedTopic], remove_after_ms: int) -> None:
    """Log the truncation of topics. `remove_after_ms` is the earliest time of removing the old incarnations' data."""
    if topics:
        told = [f"{topic.name} (now id {topic.topic_id}, before {topic.old_id})" for topic in topics]
        back = _way_back(remove_after_ms, [topic.old_id for topic in topics], " --as NAME")
        log.info("%s truncated %s; %s", _who(by), _listed(told), back, extra={"event": "topics_truncated"})


def log_purged(by: str, topics: Sequence[PurgedTopic], delay_ms: int) -> None:
    """Log that the data of deleted topics is removed at once (`delay_ms` 0) or earlier than planned."""
    if topics and delay_ms:
        told = [f"{one.name} (id {one.topic_id}) to {time_text(one.remove_after_ms)}" for one in topics]
        log.info("%s shortened the deletion of %s", _who(by), _listed(told), extra={"event": "deletions_shortened"})
    elif topics:
        told = [f"{one.name} (id {one.topic_id})" for one in topics]
        log.info("%s purged %s: every broker removes it now", _who(by), _listed(told), extra={"event": "topics_purged"})


def _who(by: str) -> str:
    # Quote names that come from clients.
    return by if by == BY_BROKER else repr(by)


def _listed(told: Sequence[str]) -> str:
    more = len(told) - SHOWN_MAX
    shown = ", ".join(told[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"topic {shown}" if len(told) == 1 else f"{len(told)} topics: {shown}"


def _way_back(remove_after_ms: int, ids: Sequence[object], option: str = "") -> str:
    which = ids[0] if len(ids) == 1 else "ID"
    return f"until {time_text(remove_after_ms)} `pybroker topics undelete {which}{option}` brings it back"
