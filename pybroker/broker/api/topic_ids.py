"""Topic ids in the tagged field that pybroker adds to Kafka's requests by name (docs/protocol.md; KIP-516, future
work).

Behavior
- Without an id the name decides. With an id, the request means only the topic with that id. If the request also has a
  name, the topic must have that name.
- The check of a name and its effect happen in one step of the event loop. Code that awaits between the two keeps the id
  instead of the name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class Names(Protocol):
    """Names and ids of the topics that exist."""

    def topic_id(self, name: str) -> Uuid | None:
        """Return the current incarnation of a name."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of an incarnation that exists."""
        ...


class ImageNames:
    """`Names` in this broker's copy of the metadata image, as the controller's decisions use them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def topic_id(self, name: str) -> Uuid | None:
        topic = self._view.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self._view.image.names.get(topic_id)


class ResolvedTopic(NamedTuple):
    asked: str
    """The name in the request; the response repeats it."""
    name: str
    """The name for authorization and lookup. Empty for an unknown id without a name."""
    topic_id: Uuid | None
    """The id in the request; None if the request has no id."""
    refused: KafkaError | None
    """The reason why the topic is refused: UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, or a failed authorization."""

    @property
    def told_id(self) -> Uuid:
        """The id for the response: the id in the request."""
        return Uuid.ZERO if self.topic_id is None else self.topic_id

    def outcome(self, error: KafkaError | None) -> KafkaError | None:
        """Return the topic's final error. It is UNKNOWN_TOPIC_ID if the request has an id and the topic was deleted in
        the meantime.
        """
        if self.topic_id is not None and error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _unknown(self.topic_id)
        return error


def meant(names: Names, name: str, topic_id: Uuid, authorize: Callable[[str], None] | None = None) -> ResolvedTopic:
    """Find the topic of a request by its name and id (ZERO: no id). `authorize` raises KafkaError if the client has no
    permission. It is called for each name, even if no topic has the name. For an id, it is called with the topic's name
    if the topic exists: names are secret, ids are not (KIP-516).
    """
    known_id = None if topic_id == Uuid.ZERO else topic_id
    found = name
    if known_id is not None and not name:
        found = names.topic_name(known_id) or ""
        if not found:
            return ResolvedTopic(name, "", known_id, _unknown(known_id))
    if authorize is not None:
        try:
            authorize(found)
        except KafkaError as error:
            return ResolvedTopic(name, found, known_id, error)
    return ResolvedTopic(name, found, known_id, None if known_id is None else contradiction(names, found, known_id))


def contradiction(names: Names, name: str, topic_id: Uuid) -> KafkaError | None:
    """Return the error if no topic has both this name and this id."""
    living = names.topic_id(name)
    if living == topic_id:
        return None
    if living is None and names.topic_name(topic_id) is None:
        return _unknown(topic_id)
    message = f"The topic '{name}' does not have the id {topic_id}."
    return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, message)


def _unknown(topic_id: Uuid) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {topic_id}.")
