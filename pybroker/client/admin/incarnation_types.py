"""Types of AdminClient's calls about incarnations and deletions of topics (docs/topic-life.md). pybroker only."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.native import Uuid


@dataclass(frozen=True, slots=True)
class UndeletedTopic:
    """A topic that was undeleted. name: its current name."""

    name: str
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class PurgedTopic:
    """A deleted topic after a purge or a shortened delay. remove_after_ms: end of the delay, milliseconds since 1970.
    """

    name: str
    topic_id: Uuid
    remove_after_ms: int


@dataclass(frozen=True, slots=True)
class TruncatedTopic:
    """A truncated topic: it has a new id; its old incarnation is now a deleted topic."""

    name: str
    topic_id: Uuid
    old_topic_id: Uuid


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """An event after the creation of an incarnation, such as `undeleted`. at_ms: milliseconds since 1970. by: the
    principal. name: the topic's name at that time; None if this kind of event has no name.
    """

    what: str
    at_ms: int
    by: str
    name: str | None


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The log start offset and log end offset of a partition when its topic was deleted; None if unknown."""

    partition: int
    log_start_offset: int | None
    log_end_offset: int | None


@dataclass(frozen=True, slots=True)
class TopicIncarnation:
    """One incarnation of a topic name. state: `live`, `deleting`, `staged`, `undeleting`, `removed`. Times are
    milliseconds since 1970; `deleted_…` are None while the incarnation is live; `successor_id` is None unless a
    truncation replaced it.
    """

    name: str
    topic_id: Uuid
    state: str
    created_ms: int | None
    created_by: str | None
    created_how: str
    deleted_ms: int | None
    deleted_by: str | None
    deleted_how: str | None
    successor_id: Uuid | None
    events: tuple[TopicEvent, ...]
    partitions: tuple[LogEnds, ...]


@dataclass(frozen=True, slots=True)
class DeletedReplica:
    """A broker's replica of a deleted topic. size_bytes, remaining_ms (until its removal), log_dir: None if unknown."""

    partition: int
    broker_id: int
    state: str
    log_dir: str | None
    size_bytes: int | None
    remaining_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """A deleted topic. state: `deleting`, `staged`, `undeleting`, `found`, `removed`. how: the operation that deleted
    the topic. size_bytes: sum over the brokers that report a size. remaining_ms: time until the last broker removes the
    data. Both are None if unknown. undeletable: whether undelete is still possible. remove_after_ms: the time until
    which undelete is possible; None if no delay is running.
    """

    name: str
    topic_id: Uuid
    state: str
    how: str
    deleted_ms: int
    deleted_by: str
    remaining_ms: int | None
    size_bytes: int | None
    replicas: tuple[DeletedReplica, ...]
    remove_after_ms: int | None = None
    undeletable: bool = False
