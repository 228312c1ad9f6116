"""Topics in AdminClient's calls: which ones are meant, new ones, descriptions and listings of existing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from pybroker.client.cluster import Node
from pybroker.native import Uuid

_KEY = object()
"""Known to this module only, so that nobody else makes a collection."""


class TopicCollection:
    """Topics by id or by name, never mixed: made by `of_topic_ids` or `of_topic_names` and by nothing else."""

    __slots__ = ()

    def __init__(self, key: object = None) -> None:
        if key is not _KEY:
            raise TypeError("use TopicCollection.of_topic_ids or TopicCollection.of_topic_names")

    def __init_subclass__(cls, **named: Any) -> None:
        if cls.__module__ != __name__:
            raise TypeError("TopicCollection cannot be subclassed")
        super().__init_subclass__(**named)

    @staticmethod
    def of_topic_ids(topics: Collection[Uuid]) -> TopicIdCollection:
        """The topics with these ids. Raises TypeError for anything but Uuids."""
        return TopicIdCollection(_KEY, topics)

    @staticmethod
    def of_topic_names(topics: Collection[str]) -> TopicNameCollection:
        """The topics with these names. Raises TypeError for anything but text."""
        return TopicNameCollection(_KEY, topics)


class TopicIdCollection(TopicCollection):
    """Topics by id."""

    __slots__ = ("_ids",)

    def __init__(self, key: object = None, topics: Collection[Uuid] = ()) -> None:
        super().__init__(key)
        self._ids = tuple(topics)
        _only(Uuid, self._ids)

    def topic_ids(self) -> Collection[Uuid]:
        """The ids."""
        return self._ids

    def __repr__(self) -> str:
        return f"TopicCollection.of_topic_ids({list(map(str, self._ids))})"


class TopicNameCollection(TopicCollection):
    """Topics by name."""

    __slots__ = ("_names",)

    def __init__(self, key: object = None, topics: Collection[str] = ()) -> None:
        super().__init__(key)
        if isinstance(topics, str):
            raise TypeError(f"expected names, got the single text {topics!r}")
        self._names = tuple(topics)
        _only(str, self._names)

    def topic_names(self) -> Collection[str]:
        """The names."""
        return self._names

    def __repr__(self) -> str:
        return f"TopicCollection.of_topic_names({list(self._names)})"


def _only(kind: type, items: Sequence[object]) -> None:
    for item in items:
        if not isinstance(item, kind):
            remedy = "; Uuid.parse(text) makes an id of text" if kind is Uuid and isinstance(item, str) else ""
            raise TypeError(f"expected {kind.__name__}, got {item!r}{remedy}")


def topic_collection(topics: TopicCollection | Iterable[str]) -> TopicIdCollection | TopicNameCollection:
    """The collection that a caller means; plain names count as one. Raises TypeError for plain ids: those need
    `TopicCollection.of_topic_ids`.
    """
    if isinstance(topics, TopicIdCollection | TopicNameCollection):
        return topics
    if isinstance(topics, str):
        _wrong(topics)
    names = list(cast("Iterable[Any]", topics))
    if any(isinstance(name, Uuid) for name in names):
        raise TypeError("topic ids are given as TopicCollection.of_topic_ids(...)")
    return TopicCollection.of_topic_names(names)


def _wrong(topics: object) -> NoReturn:
    raise TypeError(f"expected a TopicCollection or names, got the single text {topics!r}")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. -1 = the broker's default (`num.partitions`, `default.replication.factor`).

    replica_assignments: partition → broker ids, instead of the two numbers. config: settings under Kafka's names.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic shall have. assignments: broker ids of each added one."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicPartitionInfo:
    """A partition in a description. `leader` is None while there is none, `leader_epoch` -1 where unknown."""

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as `describe_topics` shows it (KIP-516).

    partitions: the one with index i is partition i. authorized_operations: codes of the operations (Kafka's
    AclOperation) that the caller may perform; None if unknown, as where it was not asked for. topic_id: Uuid.ZERO from
    a broker without ids.
    """

    name: str
    internal: bool
    partitions: tuple[TopicPartitionInfo, ...]
    authorized_operations: frozenset[int] | None = None
    topic_id: Uuid = Uuid.ZERO


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic as `list_topics` shows it. topic_id: Uuid.ZERO where the broker's answer has none."""

    name: str
    topic_id: Uuid
    internal: bool


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of `list_topics_page`. next: what `after` has to be for the next one; None behind the last."""

    listings: tuple[TopicListing, ...]
    next: str | None


class ListTopicsResult(dict[str, TopicListing]):
    """Name → listing, with Java's accessors."""

    def names(self) -> frozenset[str]:
        """The names."""
        return frozenset(self)

    def listings(self) -> list[TopicListing]:
        """The listings."""
        return list(self.values())

    def names_to_listings(self) -> dict[str, TopicListing]:
        """The same as a plain dict."""
        return dict(self)
