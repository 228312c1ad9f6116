"""Topic ids in the tagged field that pybroker adds to Kafka's requests by name (docs/protocol.md; KIP-516, future
work).

Behavior
- Without an id the name decides. With an id only that topic is meant: it must also have the name, unless the name is
  empty.
- A check and its effect happen in one step of the event loop; whatever waits in between uses the id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class Names(Protocol):
    """What lives now."""

    def topic_id(self, name: str) -> Uuid | None:
        """The present incarnation of a name."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of an incarnation that exists."""
        ...


class ImageNames:
    """`Names` of the cluster as this broker has heard of it: what is decided by the controller goes by it."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def topic_id(self, name: str) -> Uuid | None:
        """The present incarnation of a name."""
        topic = self._view.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of an incarnation that exists."""
        return self._view.image.names.get(topic_id)


class ResolvedTopic(NamedTuple):
    """A topic of a request."""

    asked: str
    """The name that the request gives, and its answer."""
    name: str
    """By which it is authorized and found. By an id alone that nobody has: empty."""
    topic_id: Uuid | None
    """What the request gives."""
    refused: KafkaError | None
    """Why it is not meant: UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, or the error of who may not use it."""

    @property
    def told_id(self) -> Uuid:
        """The id for the answer: the request's."""
        return Uuid.ZERO if self.topic_id is None else self.topic_id

    def outcome(self, error: KafkaError | None) -> KafkaError | None:
        """What became of the topic as a whole: who asked by id and came too late is told so by id."""
        if self.topic_id is not None and error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _unknown(self.topic_id)
        return error


def meant(names: Names, name: str, topic_id: Uuid, authorize: Callable[[str], None] | None = None) -> ResolvedTopic:
    """What a name and an id (ZERO: none is given) mean. `authorize` raises KafkaError; it is asked about a name whether
    there is such a topic or not, and about the name of an id if that exists: ids are no secret, names are (KIP-516).
    """
    given = None if topic_id == Uuid.ZERO else topic_id
    found = name
    if given is not None and not name:
        found = names.topic_name(given) or ""
        if not found:
            return ResolvedTopic(name, "", given, _unknown(given))
    if authorize is not None:
        try:
            authorize(found)
        except KafkaError as error:
            return ResolvedTopic(name, found, given, error)
    return ResolvedTopic(name, found, given, None if given is None else contradiction(names, found, given))


def contradiction(names: Names, name: str, topic_id: Uuid) -> KafkaError | None:
    """Why a name and an id are not those of one living topic."""
    living = names.topic_id(name)
    if living == topic_id:
        return None
    if living is None and names.topic_name(topic_id) is None:
        return _unknown(topic_id)
    message = f"The topic '{name}' does not have the id {topic_id}."
    return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, message)


def _unknown(topic_id: Uuid) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {topic_id}.")
