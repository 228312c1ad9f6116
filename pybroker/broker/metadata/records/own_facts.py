"""Collects data that no record of Kafka can express into few NoOpRecords.

The structs are filled by position, in the order of the schema. This is fast, which matters because each new topic has
such data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pybroker.broker.metadata.lineage import TopicEvent, TopicLineage
from pybroker.broker.metadata.records.frames import encode_record
from pybroker.protocol import messages as m

ELEMENTS_MAX = 1_000
"""Limit of elements per NoOpRecord. A topic's history is never split, even if it exceeds the limit."""


class OwnFacts:
    """Data that is not yet written to a NoOpRecord. The elements of each list keep their order."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._elements = 0

    def add(self, field: str, *elements: Any, weight: int = 1) -> None:
        """Add elements to a list of NoOpRecord. `weight`: the number with which each element counts towards
        ELEMENTS_MAX."""
        self._values.setdefault(field, []).extend(elements)
        self._elements += weight * len(elements)

    def set(self, field: str, value: Any) -> None:
        """Set a field of NoOpRecord that is not a list."""
        self._values[field] = value

    def full(self) -> Iterator[bytes]:
        """Yield a NoOpRecord in its frame if it is full."""
        if self._elements >= ELEMENTS_MAX:
            yield from self.rest()

    def rest(self) -> Iterator[bytes]:
        """Yield the remaining data as one NoOpRecord in its frame."""
        if self._values:
            yield encode_record(m.NoOpRecord(**self._values))
            self._values, self._elements = {}, 0


def pieces(*lists: list[Any]) -> Iterator[tuple[list[Any], ...]]:
    """Yield the lists in parts of at most ELEMENTS_MAX elements each; there is at least one part."""
    for at in range(0, max(1, *map(len, lists)), ELEMENTS_MAX):
        yield tuple(each[at : at + ELEMENTS_MAX] for each in lists)


def settings_of(config: Iterable[tuple[str, str]]) -> list[Any]:
    """Return settings as structs of NoOpRecord."""
    return [m.NoOpRecord_Setting(name, value) for name, value in config]


def settings_from(settings: Iterable[Any]) -> dict[str, str]:
    """Return settings from structs of NoOpRecord."""
    return {setting.name: setting.value for setting in settings}


def lineage_of(lineage: TopicLineage) -> Any:
    """Return a history as a struct of NoOpRecord."""
    return m.NoOpRecord_Lineage(
        [m.NoOpRecord_TopicEvent(event.what, event.at_ms, event.by, event.name) for event in lineage.events],
        lineage.first_epoch,
        [m.NoOpRecord_EpochRange(first, last) for first, last in lineage.lives],
        list(lineage.start_offsets),
    )


def lineage_from(struct: Any) -> TopicLineage:
    """Return a history from a struct of NoOpRecord."""
    return TopicLineage(
        tuple(TopicEvent(event.what, event.at_ms, event.by, event.name) for event in struct.events),
        struct.first_epoch,
        tuple((epochs.first_epoch, epochs.last_epoch) for epochs in struct.lives),
        tuple(struct.start_offsets),
    )
