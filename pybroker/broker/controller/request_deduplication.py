"""Request deduplication log: the outcomes of recent requests by request id, in the store. A caller that loses the
response repeats the request. The current controller then returns the recorded response instead of deciding the request
twice.

The multi that makes a decision durable also writes its outcome. A request without an outcome has not been decided. No
former controller can still decide it, because its multi would fail on the changed controller epoch. A decision that
changes nothing has no outcome; the controller may repeat such a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pybroker.broker.cluster.controller_client import RequestIdentity
from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.value_codec import UnreadableError, pack_reply, unpack_reply
from pybroker.broker.metadata.image import RequestOutcome
from pybroker.broker.metadata.metadata_store import Create, Delete, MetadataStore, Node, Operation, ensure_path
from pybroker.broker.metadata.outcome_nodes import encode_outcome, outcome_path, read_outcomes
from pybroker.broker.metadata.znodes import OUTCOMES
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

KEPT_MS = 600_000
"""Age in milliseconds at which outcomes are removed."""
OUTCOMES_MAX = 4_000
"""Limit of outcomes. Above it, the oldest are removed."""
REPLY_BYTES_MAX = 64 * 1024
"""Size limit of a stored reply. For a longer reply, the log only records that the request was decided."""
FORGOTTEN_AT_ONCE_MAX = 50
"""Limit of removals per multi."""


class OutcomeChange(NamedTuple):
    """An outcome to write, and the outcomes to remove."""

    request_id: Uuid
    outcome: RequestOutcome
    forgotten: tuple[Uuid, ...]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations for the decision's multi."""
        created = Create(outcome_path(self.request_id), encode_outcome(self.outcome))
        return (created, *(Delete(outcome_path(request_id)) for request_id in self.forgotten))


class RequestOutcomes:
    """The request deduplication log, used only by the controller, its only writer."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._known: dict[Uuid, RequestOutcome] = {}
        """Request id → outcome, the oldest first."""
        self._complete_since_ms = 0
        """Wall time (ms). Outcomes from before this time may have been removed."""

    async def load(self, store: MetadataStore) -> None:
        """Load all outcomes from the store."""
        await ensure_path(store, OUTCOMES)
        self.fill(await store.subtree(OUTCOMES))

    def fill(self, nodes: Mapping[str, Node]) -> None:
        """Load outcomes from nodes."""
        self.take(read_outcomes(nodes))

    def take(self, found: Mapping[Uuid, RequestOutcome]) -> None:
        """Load the outcomes that earlier controllers recorded in the image."""
        self._known = dict(sorted(found.items(), key=lambda one: one[1].at_ms))
        if len(found) >= OUTCOMES_MAX:
            self._complete_since_ms = next(iter(self._known.values())).at_ms

    def find(self, event: Event[Any], request: RequestIdentity) -> RequestOutcome | None:
        """Return the outcome of a request; None if the request was not decided. Raises KafkaError REQUEST_TIMED_OUT if
        the outcome or its reply may have been removed."""
        found = self._known.get(request.request_id)
        if found is None:
            if request.ms_ago and self._wall_ms() - request.ms_ago < self._oldest_ms():
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "It is no longer known whether this change was made. Read the current state before you try again.",
                )
            return None
        if found.reply is None or found.event != type(event).__name__:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The change was made, but its answer is lost. Read the current state."
            )
        return found

    def _oldest_ms(self) -> int:
        return max(self._complete_since_ms, self._wall_ms() - KEPT_MS)

    @staticmethod
    def reply_of(event: Event[Any], outcome: RequestOutcome) -> Any:
        """Return the reply that an outcome contains. Raises KafkaError REQUEST_TIMED_OUT if the reply cannot be read.
        """
        assert outcome.reply is not None
        try:
            return unpack_reply(type(event), outcome.reply)
        except UnreadableError as problem:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The change was made, but its answer cannot be read ({problem}). Read the current state.",
            ) from None

    def change_for(self, event: Event[Any], asked: RequestIdentity, reply: object) -> OutcomeChange:
        """Return the outcome to write in the multi that makes the decision durable."""
        now_ms = self._wall_ms()
        packed = pack_reply(reply)
        outcome = RequestOutcome(now_ms, type(event).__name__, packed if len(packed) <= REPLY_BYTES_MAX else None)
        surplus = len(self._known) + 1 - OUTCOMES_MAX
        forgotten: list[Uuid] = []
        for position, (request_id, known) in enumerate(self._known.items()):
            if len(forgotten) >= FORGOTTEN_AT_ONCE_MAX or (position >= surplus and known.at_ms >= now_ms - KEPT_MS):
                break
            forgotten.append(request_id)
        return OutcomeChange(asked.request_id, outcome, tuple(forgotten))

    def note_durable(self, change: OutcomeChange) -> None:
        """Record that the outcome is durable."""
        for request_id in change.forgotten:
            self._complete_since_ms = max(self._complete_since_ms, self._known.pop(request_id).at_ms)
        self._known[change.request_id] = change.outcome
