"""Topics and bounds of a read: the options `subscribe`, `assign`, `startingOffsets`, …"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pybroker.native import Uuid
from pybroker.spark.option_values import INT, LONG, number
from pybroker.spark.source_errors import OptionError

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign", "topicIds")
EARLIEST = -2


@dataclass(frozen=True)
class TopicSelection:
    """The topics of a read. There are four ways to select them, so exactly one field is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    ids: tuple[str, ...] = ()
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def covers(self, topic_id: str, name: str) -> bool:
        """Return whether the subscription includes a topic, even if the topic does not exist."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name) is not None
        return topic_id in self.ids or name in self.names or name in self.assigned


@dataclass(frozen=True)
class ReadBound:
    """Start or end of a read: `earliest`, `latest`, a time, or offsets or times by partition."""

    name: str
    """The option that sets the bound."""
    word: str = ""
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamps: Mapping[str, Mapping[int, int]] | None = None


def subscription_of(options: Mapping[str, str]) -> TopicSelection:
    """Parse the one option of SUBSCRIPTIONS that is set. Raises OptionError."""
    chosen = [name for name in SUBSCRIPTIONS if options.get(name)]
    if len(chosen) != 1:
        actual = f"got {' and '.join(chosen)}" if chosen else "got none"
        raise OptionError(f"expected exactly one of {', '.join(SUBSCRIPTIONS)}, {actual}")
    (name,) = chosen
    text = options[name]
    match name:
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as error:
                raise OptionError(f"{name}={text}: {error}") from None
            return TopicSelection(pattern=text)
        case "assign":
            return TopicSelection(assigned=_assigned(text))
    listed = tuple(dict.fromkeys(each for part in text.split(",") if (each := part.strip())))
    if not listed:
        raise OptionError(f"{name}={text}: no topic name given")
    if name == "topicIds":
        return TopicSelection(ids=tuple(dict.fromkeys(topic_id(name, each) for each in listed)))
    return TopicSelection(names=listed)


def topic_id(name: str, text: str) -> str:
    """Return a topic id as brokers write it. Raises OptionError."""
    try:
        found = Uuid.parse(text)
    except ValueError as error:
        raise OptionError(f"{name}: {text} is not a topic id: {error}") from None
    if not found:
        raise OptionError(f"{name}: {text} is the zero id, which no topic has")
    return str(found)


def bound_of(options: Mapping[str, str], prefix: str, default: str, words: tuple[str, ...]) -> ReadBound:
    """Parse the first bound that is set, in the order of Spark's source: one time for all partitions, times by
    partition, offsets.

    Raises OptionError.
    """
    timestamp = options.get(f"{prefix}Timestamp")
    if timestamp:
        try:
            return ReadBound(f"{prefix}Timestamp", timestamp_ms=number(f"{prefix}Timestamp", timestamp, 0, LONG))
        except OptionError as error:
            raise OptionError(f"{error} (milliseconds since 1970)") from None
    name = f"{prefix}OffsetsByTimestamp"
    timestamps = options.get(name)
    if timestamps:
        return ReadBound(name, timestamps=_by_partition(name, timestamps, 0))
    name = f"{prefix}Offsets"
    value = options.get(name) or default
    if value.lower() in words:
        return ReadBound(name, word=value.lower())
    if not value.startswith("{"):
        raise OptionError(f"{name}={value}: expected {' or '.join(words)} or offsets as JSON")
    return ReadBound(name, offsets=_by_partition(name, value, EARLIEST))


def _object(name: str, text: str) -> dict[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found):
            raise ValueError("a name is listed twice")
        return made

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{name}={text}: {error}") from None
    if not isinstance(value, dict) or not value:
        raise OptionError(f"{name}={text}: expected a JSON object with topic names as keys")
    return value


def _is_int(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    found = _object("assign", text)
    for topic, numbers in found.items():
        if (
            not isinstance(numbers, list)
            or not numbers
            or not all(_is_int(each, 0, INT) for each in numbers)
            or len(set(numbers)) < len(numbers)
        ):
            raise OptionError(
                f"assign={text}: expected the partitions of {topic} as a list of distinct numbers from 0, such as "
                f'{{"{topic}": [0, 1]}}'
            )
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def _by_partition(name: str, text: str, least: int) -> dict[str, dict[int, int]]:
    """Parse offsets or times by topic and partition. least: the smallest valid value."""
    made: dict[str, dict[int, int]] = {}
    for topic, places in _object(name, text).items():
        if not isinstance(places, dict):
            raise OptionError(f'{name}={text}: expected an object such as {{"{topic}": {{"0": 5}}}}')
        for partition, at in places.items():
            if not re.fullmatch("0|[1-9][0-9]{0,9}", partition):
                raise OptionError(f"{name}={text}: {topic} has no partition {partition}")
            if not _is_int(at, least, LONG):
                raise OptionError(
                    f"{name}={text}: {topic} partition {partition}: expected a whole number from {least} to "
                    f"{LONG}, got {json.dumps(at)}"
                )
        made[topic] = {int(partition): at for partition, at in places.items()}
    return made
