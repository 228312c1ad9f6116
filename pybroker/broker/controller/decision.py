"""What a decision is, and which function decides which event.

Each event has one pure function, of the image and the event; it registers itself with `decides`. The modules of the
families are imported by `pybroker.broker.controller.families`, and by nobody else for that purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from pybroker.broker.cluster.events import CatchUp, Event
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.broker.metadata.store import Operation
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class Decision(msgspec.Struct, frozen=True):
    """Store operations, the change of the image, and the reply. Nothing is done yet: the controller's loop makes it
    durable (one multi), visible, sent, answered, in that order."""

    operations: tuple[Operation, ...]
    delta: ImageDelta
    reply: Any
    separable: bool = False
    """The operations may be made durable one after another, in several multis: what a crash leaves undone, the next
    controller decides again."""
    seams: tuple[int, ...] = ()
    """Positions at which the operations may be cut when they do not fit into one multi. What a crash leaves undone
    behind one, a load completes or removes (`metadata.load`)."""
    warnings: tuple[str, ...] = ()
    """What the operator is told when it is durable."""


class Steps:
    """Operations with seams between them."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.seams: list[int] = []

    def add(self, units: Iterable[Sequence[Operation]]) -> None:
        """Each unit is done as a whole."""
        for unit in units:
            self.seams.append(len(self.operations))
            self.operations += unit


Units = list[list[Operation]]


def require_life(image: ClusterImage, broker_id: int, broker_epoch: int) -> None:
    """Raises KafkaError STALE_BROKER_EPOCH unless this life of the broker is the registered one."""
    registered = image.brokers.get(broker_id)
    if registered is None or registered.epoch != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "Another life of this broker is registered.")


def nothing(reply: Any) -> Decision:
    """A decision that changes nothing."""
    return Decision((), ImageDelta(), reply)


class Closed(msgspec.Struct, frozen=True):
    """What topics hold that were closed for a decision, and will until they are reopened."""

    offsets: Mapping[Uuid, tuple[Mapping[str, Any], ...]] = {}
    """Committed offsets, to be kept with the deletion."""
    ends: Mapping[Uuid, tuple[tuple[int, int], ...]] = {}
    """Log start and log end by partition; -1 where nobody said."""


NOTHING_CLOSED = Closed()


class Rule(msgspec.Struct, frozen=True):
    """How one kind of event is decided."""

    decide: Callable[..., Decision]
    """(image, event), and what was closed if something is closed for it."""
    closes: Callable[[ClusterImage, Any], Sequence[TopicImage]] | None
    """The topics to be closed before it is decided."""


_RULES: dict[type[Event[Any]], Rule] = {}

E = TypeVar("E", bound=Event[Any])
P = ParamSpec("P")
Decide = Callable[Concatenate[ClusterImage, E, P], Decision]


def decides(
    kind: type[E], *, closes: Callable[[ClusterImage, E], Sequence[TopicImage]] | None = None
) -> Callable[[Decide[E, P]], Decide[E, P]]:
    """Registers the function below for a kind of event."""

    def register(decide: Decide[E, P]) -> Decide[E, P]:
        assert kind not in _RULES, f"{kind.__name__} is decided by two functions"
        _RULES[kind] = Rule(decide, closes)
        return decide

    return register


def rule_of(event: Event[Any]) -> Rule:
    """Who decides an event."""
    return _RULES[type(event)]


def decided_kinds() -> frozenset[type[Event[Any]]]:
    """All that is registered."""
    return frozenset(_RULES)


@decides(CatchUp)
def decide_catch_up(image: ClusterImage, event: CatchUp) -> Decision:
    """That it has had its turn is all."""
    del image, event
    return nothing(None)
