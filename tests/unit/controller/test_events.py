"""Events, replies and messages are plain values: another broker can send them, and gets the same values."""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import pytest

from pybroker.broker.cluster import events, quorum_events
from pybroker.broker.cluster.events import Event
from pybroker.broker.controller import decision_modules
from pybroker.broker.controller import internal_events as own
from pybroker.broker.controller.decision import decided_kinds
from pybroker.broker.metadata import control_messages
from pybroker.broker.metadata.control_messages import ControlRequest, ControlResponse, UpdateCluster, refusal
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.ingest_records import COMMITTED, OPEN, IngestedPartition, IngestRecord
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from tests.unit.controller.test_decisions import cluster, created, deleted

KINDS = sorted(
    (
        kind
        for module in (events, quorum_events, own)
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Event) and kind is not Event
    ),
    key=lambda kind: kind.__name__,
)
MESSAGES = sorted(
    {*typing.get_args(ControlRequest), *typing.get_args(ControlResponse)}, key=lambda kind: str(kind.__name__)
)

PLAIN = (int, str, bytes, bool, float, type(None), Uuid, KafkaError)
"""Values that are equal after sending; a KafkaError is sent as its code and its text."""


def strange(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Return the parts of a type that are not plain values: a future, a function, an internal object."""
    if kind in seen or kind is Any:
        return
    seen.add(kind)
    origin = typing.get_origin(kind)
    if origin in (tuple, list, frozenset, Mapping, dict, typing.Union, types.UnionType):
        for part in typing.get_args(kind):
            if part is not Ellipsis:
                yield from strange(part, seen)
    elif inspect.isclass(kind) and (issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields")):
        for name, field in typing.get_type_hints(kind).items():
            yield from (f"{kind.__name__}.{name}: {found}" for found in strange(field, seen))
    elif kind not in PLAIN:
        yield str(kind)


def reply_type(kind: type[Event[Any]]) -> Any:
    (base,) = types.get_original_bases(kind) if hasattr(types, "get_original_bases") else kind.__orig_bases__  # type: ignore[attr-defined]  # since Python 3.12
    return typing.get_args(base)[0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_and_its_reply_are_plain_values(kind: type[Event[Any]]) -> None:
    assert list(strange(kind, set())) == []
    assert list(strange(reply_type(kind), set())) == []


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_is_a_plain_value(kind: type) -> None:
    assert list(strange(kind, set())) == []


class Inside(msgspec.Struct):
    done: asyncio.Future[None]


class Wrapped(NamedTuple):
    found: tuple[Inside, ...]


def test_a_strange_value_is_seen() -> None:
    (found,) = strange(Mapping[str, Wrapped], set())
    assert "Inside.done" in found


def test_every_event_is_decided_by_one_function() -> None:
    assert decision_modules.DECISION_MODULES
    assert decided_kinds() == set(KINDS)


def encoded(value: object) -> object:
    assert isinstance(value, Uuid)
    return value.bytes


def decoded(kind: type, value: Any) -> object:
    assert kind is Uuid
    return Uuid.from_bytes(value)


def there_and_back(message: UpdateCluster) -> object:
    data = msgspec.msgpack.encode(message.change, enc_hook=encoded)
    return msgspec.msgpack.decode(data, type=type(message.change), dec_hook=decoded)


def test_a_change_of_the_cluster_is_the_same_after_it_was_sent() -> None:
    image = deleted(created(cluster(1, 2), "a", "b", factor=2), "b")
    topic_id = image.topics["a"].topic_id
    parts = {0: IngestedPartition(1, 70, 0, 1)}
    delta = ImageDelta(
        topics=tuple(image.topics.values()),
        deletions=tuple(image.deletions.values()),
        floors={"a": 3},
        ingests=(IngestRecord(topic_id, "one", -1, 1, OPEN, 1, 2, {"a": "b"}),),
        committed_ingests=(IngestRecord(topic_id, "two", 4, 1, COMMITTED, 1, 2, {}, 3, parts),),
    )
    for change in (delta, image.apply(delta)):
        assert isinstance(change, ImageDelta | ClusterImage)
        assert there_and_back(UpdateCluster(1, 5, 1, 7, change)) == change


@pytest.mark.parametrize("kind", typing.get_args(ControlRequest), ids=lambda kind: kind.__name__)
def test_a_request_that_is_not_obeyed_is_answered_by_its_own_response(kind: type) -> None:
    """An earlier version answered requests to fence topics as if they had been changes of settings."""
    request = kind(*[None] * len(msgspec.structs.fields(kind)))
    response = refusal(request, 11)
    expected = kind.__name__.removesuffix("Request") + "Response"
    assert (type(response).__name__, response.error_code) == (expected, 11)
    assert getattr(control_messages, expected) is type(response)
