"""Topics in AdminClient's calls: collections of topics, new topics, descriptions and listings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from pybroker.client.cluster_metadata import Node
from pybroker.native import Uuid

_KEY = object()
"""Argument that the constructors require. It is private to this module, so that only the factory methods below can
create a collection.
"""


class TopicCollection:
    """Topics by id or by name, never mixed. Create it with `of_topic_ids` or `of_topic_names`."""

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
        """Return a collection of topics by id. Raises TypeError if an element is not a Uuid."""
        return TopicIdCollection(_KEY, topics)

    @staticmethod
    def of_topic_names(topics: Collection[str]) -> TopicNameCollection:
        """Return a collection of topics by name. Raises TypeError if an element is not text."""
        return TopicNameCollection(_KEY, topics)


class TopicIdCollection(TopicCollection):
    """Topics by id."""

    __slots__ = ("_ids",)

    def __init__(self, key: object = None, topics: Collection[Uuid] = ()) -> None:
        super().__init__(key)
        self._ids = tuple(topics)
        _only(Uuid, self._ids)

    def topic_ids(self) -> Collection[Uuid]:
        """Return the ids."""
        return self._ids

    def __repr__(self) -> str:
        return f"TopicCollection.of_topic_ids({list(map(str, self._ids))})"


class TopicNameCollection(TopicCollection):
    """Topics by name."""

    __slots__ = ("_names",)

    def __init__(self, key: object = None, topics: Collection[str] = ()) -> None:
        super().__init__(key)
        if isinstance(topics, str):
            raise TypeError(f"expected a collection of names, got the string {topics!r}")
        self._names = tuple(topics)
        _only(str, self._names)

    def topic_names(self) -> Collection[str]:
        """Return the names."""
        return self._names

    def __repr__(self) -> str:
        return f"TopicCollection.of_topic_names({list(self._names)})"


def _only(kind: type, items: Sequence[object]) -> None:
    for item in items:
        if not isinstance(item, kind):
            remedy = "; use Uuid.parse(text)" if kind is Uuid and isinstance(item, str) else ""
            raise TypeError(f"expected {kind.__name__}, got {item!r}{remedy}")


def topic_collection(topics: TopicCollection | Iterable[str]) -> TopicIdCollection | TopicNameCollection:
    """Return a caller's topics as a collection. Plain names are converted; for plain ids, raise TypeError, because the
    caller must use `TopicCollection.of_topic_ids`.
    """
    if isinstance(topics, TopicIdCollection | TopicNameCollection):
        return topics
    if isinstance(topics, str):
        _wrong(topics)
    names = list(cast("Iterable[Any]", topics))
    if any(isinstance(name, Uuid) for name in names):
        raise TypeError("pass topic ids as TopicCollection.of_topic_ids(...)")
    return TopicCollection.of_topic_names(names)


def _wrong(topics: object) -> NoReturn:
    raise TypeError(f"expected a TopicCollection or names, got the string {topics!r}")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 = the broker's default (`num.partitions`, `default.replication.factor`).

    replica_assignments: partition → broker ids, instead of the two numbers. config: settings under Kafka's names.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new total number of a topic's partitions. assignments: broker ids for each added partition."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicPartitionInfo:
    """A partition in a description. `leader` is None if there is none; `leader_epoch` is -1 if unknown."""

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as returned by `describe_topics` (KIP-516).

    partitions: index i is partition i. authorized_operations: codes of the operations (Kafka's AclOperation) that the
    caller may perform; None if unknown or not requested. topic_id: Uuid.ZERO from a broker without topic ids.
    """

    name: str
    internal: bool
    partitions: tuple[TopicPartitionInfo, ...]
    authorized_operations: frozenset[int] | None = None
    topic_id: Uuid = Uuid.ZERO


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic as returned by `list_topics`. topic_id: Uuid.ZERO if the response has none."""

    name: str
    topic_id: Uuid
    internal: bool


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of `list_topics_page`. next: value of `after` for the next page; None on the last page."""

    listings: tuple[TopicListing, ...]
    next: str | None


class ListTopicsResult(dict[str, TopicListing]):
    """Name → listing, with the accessors of Java's class."""

    def names(self) -> frozenset[str]:
        """Return the names."""
        return frozenset(self)

    def listings(self) -> list[TopicListing]:
        """Return the listings."""
        return list(self.values())

    def names_to_listings(self) -> dict[str, TopicListing]:
        """Return a plain dict of name → listing."""
        return dict(self)
