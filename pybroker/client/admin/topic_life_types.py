"""The lives of topics as administrators see them: incarnations, deletions (docs/topic-life.md). pybroker only."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.native import Uuid


@dataclass(frozen=True, slots=True)
class UndeletedTopic:
    """A topic that lives again. name: what it is called now."""

    name: str
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class PurgedTopic:
    """A deleted topic whose data goes now, or sooner than it would have. remove_after_ms: when the delay ends."""

    name: str
    topic_id: Uuid
    remove_after_ms: int


@dataclass(frozen=True, slots=True)
class TruncatedTopic:
    """A topic whose records are gone: it has a new id, and the old one waits as a deleted topic does."""

    name: str
    topic_id: Uuid
    old_topic_id: Uuid


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """Something that happened to an incarnation after its creation, as `undeleted`. at_ms: milliseconds since 1970. by:
    the principal. name: what it was called then; None where that did not matter.
    """

    what: str
    at_ms: int
    by: str
    name: str | None


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Where a partition's log began and ended when its topic was deleted; None where nobody knows."""

    partition: int
    log_start_offset: int | None
    log_end_offset: int | None


@dataclass(frozen=True, slots=True)
class TopicIncarnation:
    """One life of a name. state: `live`, `deleting`, `staged`, `undeleting`, `removed`. Times are milliseconds since
    1970; `deleted_…` are None while it lives, `successor_id` where no truncation replaced it.
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
    """What is left of a deleted topic's partition on a broker. size_bytes, remaining_ms (until it is removed), log_dir:
    None where unknown.
    """

    partition: int
    broker_id: int
    state: str
    log_dir: str | None
    size_bytes: int | None
    remaining_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """A deleted topic. state: `deleting`, `staged`, `undeleting`, `found`, `removed`. how: by what it was deleted.
    size_bytes: on all brokers that say what they hold. remaining_ms: until the last of them removes it. None where
    unknown. undeletable: whether it can still come back; remove_after_ms: until when, None where no delay runs.
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
