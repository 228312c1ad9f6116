"""Decisions, and the registry of the functions that decide events.

Each kind of event has one pure function of the image and the event, registered by the decorator `decides`. Only
`pybroker.broker.controller.decision_modules` imports the modules with these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from pybroker.broker.cluster.events import CatchUp, Event
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.broker.metadata.metadata_store import Operation
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class Decision(msgspec.Struct, frozen=True):
    """A decision: the operations for the store, the change of the image, and the reply. A decision has no effect by
    itself. The controller makes it durable (in one multi), applies it, sends it to the brokers and responds, in this
    order."""

    operations: tuple[Operation, ...]
    delta: ImageDelta
    reply: Any
    separable: bool = False
    """True if the operations may be written one after another, in several multis. If a crash prevents some of them, the
    next controller decides that part again."""
    seams: tuple[int, ...] = ()
    """Indexes at which the operations may be split if they are too large for one multi. After a crash between two
    multis, the next load completes the change or removes it (`metadata.image_loader`)."""
    warnings: tuple[str, ...] = ()
    """Warnings for the operator. The controller logs them when the decision is durable."""


class Steps:
    """Operations in atomic units. If the operations are too large for one multi, they are split between two units."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.seams: list[int] = []

    def add(self, units: Iterable[Sequence[Operation]]) -> None:
        """Add units; the operations of one unit are written atomically."""
        for unit in units:
            self.seams.append(len(self.operations))
            self.operations += unit


Units = list[list[Operation]]


def require_broker_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> None:
    """Raise KafkaError STALE_BROKER_EPOCH unless the broker is registered with this broker epoch."""
    registered = image.brokers.get(broker_id)
    if registered is None or registered.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, "This broker epoch is obsolete: the broker has registered again since."
        )


def nothing(reply: Any) -> Decision:
    """Return a decision without a change."""
    return Decision((), ImageDelta(), reply)


class FencedTopics(msgspec.Struct, frozen=True):
    """Log offsets and committed offsets of write-fenced topics, as input of a decision; valid until the fence is
    lifted."""

    offsets: Mapping[Uuid, tuple[Mapping[str, Any], ...]] = {}
    """Committed offsets to store in the deletion record."""
    ends: Mapping[Uuid, tuple[tuple[int, int], ...]] = {}
    """Log start offset and log end offset by partition. -1: no broker has reported the offset."""


NOTHING_CLOSED = FencedTopics()


class DecisionRule(msgspec.Struct, frozen=True):
    """How one kind of event is decided."""

    decide: Callable[..., Decision]
    """The decision function. Arguments: the image, the event, and `FencedTopics` if topics are fenced for the event."""
    closes: Callable[[ClusterImage, Any], Sequence[TopicImage]] | None
    """Returns the topics to fence before the decision."""


_RULES: dict[type[Event[Any]], DecisionRule] = {}

E = TypeVar("E", bound=Event[Any])
P = ParamSpec("P")
Decide = Callable[Concatenate[ClusterImage, E, P], Decision]


def decides(
    kind: type[E], *, closes: Callable[[ClusterImage, E], Sequence[TopicImage]] | None = None
) -> Callable[[Decide[E, P]], Decide[E, P]]:
    """Register the decorated function for a kind of event."""

    def register(decide: Decide[E, P]) -> Decide[E, P]:
        assert kind not in _RULES, f"{kind.__name__} has two decision functions"
        _RULES[kind] = DecisionRule(decide, closes)
        return decide

    return register


def rule_of(event: Event[Any]) -> DecisionRule:
    """Return the rule for an event."""
    return _RULES[type(event)]


def decided_kinds() -> frozenset[type[Event[Any]]]:
    """Return all registered kinds of events."""
    return frozenset(_RULES)


@decides(CatchUp)
def decide_catch_up(image: ClusterImage, event: CatchUp) -> Decision:
    """Decide nothing. The reply shows that all earlier events have been decided."""
    del image, event
    return nothing(None)
