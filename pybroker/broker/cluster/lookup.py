"""Topic lookup by name and id, and the errors for topics that are not live. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from pybroker.broker.metadata.deletion_records import FOUND, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, TopicImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.printable import time_text
from pybroker.protocol.error_codes import ErrorCode

NO_SUCH_ID = "There is no topic with id {}."


def living_topic(image: ClusterImage, which: str | Uuid, removed: Container[Uuid] = ()) -> TopicImage:
    """Return the live topic of a name or id. Raises KafkaError if there is no such topic, or if it is in `removed`."""
    topic = image.topics.get(which) if isinstance(which, str) else image.topic_by_id(which)
    if topic is None or topic.topic_id in removed:
        raise unknown_topic(image, which)
    return topic


def topic_or_deletion(image: ClusterImage, name: str | None, topic_id: Uuid) -> TopicImage | DeletionRecord | None:
    """Return the topic of an id; if the id is ZERO, the topic of the name. For an id, return the live topic or else the
    deletion of the id; for a name, only the live topic. None if nothing is found.
    """
    if topic_id != Uuid.ZERO:
        return image.topic_by_id(topic_id) or image.deletions.get(topic_id)
    return None if name is None else image.topics.get(name)


class _DeletionsByName:
    """Index of the last image's deletions by name. It is needed because one request may contain thousands of names."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[Uuid, DeletionRecord], Mapping[str, list[DeletionRecord]]] = ({}, {})

    def of(self, deletions: Mapping[Uuid, DeletionRecord]) -> Mapping[str, list[DeletionRecord]]:
        records, found = self._last
        if records is not deletions:
            found = {}
            for record in sorted(deletions.values(), key=lambda record: -record.deleted_ms):
                found.setdefault(record.topic, []).append(record)
            self._last = (deletions, found)
        return found


_by_name = _DeletionsByName()


def deletions_of(image: ClusterImage, name: str) -> Sequence[DeletionRecord]:
    """Return the deletions of topics with a name, the latest first. Finished deletions are included; undeleted topics
    are not."""
    found = _by_name.of(image.deletions).get(name, ())
    return [record for record in found if record.topic_id not in image.names]


def last_deletion(image: ClusterImage, name: str) -> DeletionRecord | None:
    """Return the latest deletion of a topic with a name; None if no deletion record is left."""
    return next((record for record in deletions_of(image, name) if record.state != FOUND), None)


def death(record: DeletionRecord, replaced: str = "") -> str:
    """Return a part of a sentence that says when and by which principal a topic was deleted, and how to undelete it.
    `replaced`: the name of the successor.
    """
    by = record.deleted_by or "an unknown principal"
    text = f"it was deleted by {by} at {time_text(record.deleted_ms)}{replaced}"
    if not record.undeletable:
        return f"{text} and cannot be undeleted"
    until = time_text(record.remove_after_ms)
    return f"{text}; until {until} `pybroker topics undelete {record.topic_id}` brings it back"


def unknown_id(image: ClusterImage, topic_id: Uuid, may_see: Callable[[str], bool]) -> KafkaError:
    """Return the error for an id that no live topic has, like `unknown_topic`.

    `may_see`: returns whether the client may know that a topic of this name exists. If it may not, the error is the
    same as for an id that never existed.
    """
    dead = image.deletions.get(topic_id)
    if dead is None or may_see(dead.topic):
        return unknown_topic(image, topic_id)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID.format(topic_id))


def unknown_topic(image: ClusterImage, which: str | Uuid) -> KafkaError:
    """Return the error for a name or id that no live topic has. If the deletion is known, the message describes it."""
    if isinstance(which, str):
        if which in image.damaged:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata of topic '{which}' is damaged: {image.damaged[which]}"
            )
        last = last_deletion(image, which)
        text = "" if last is None else f": {death(last)}"
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{which}'{text}.")
    dead = image.deletions.get(which)
    if dead is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID.format(which))
    successor = image.topics.get(dead.topic)
    replaced = "" if successor is None else f", and replaced by id {successor.topic_id}"
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_ID,
        f"Topic id {which} was '{dead.topic}': {death(dead, replaced)}.",
    )
