"""Makes decisions durable, each in one multi. The multi also checks that this broker is still the controller, and
increments the decision count in the store.

If the response to a write is lost, the controller does not know whether the write has succeeded. The decision count
shows whether it has: only the controller writes the count, and each decision increments it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from pybroker.broker.controller.activation import ControllerTerm
from pybroker.broker.controller.decision import Decision
from pybroker.broker.controller.event_size import run_apart
from pybroker.broker.controller.request_deduplication import OutcomeChange
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_store import (
    MULTI_BYTES_MAX,
    PART_OPERATIONS_MAX,
    MetadataStore,
    MultiError,
    Operation,
    Set,
    StoreClosedError,
    StoreError,
    UnavailableError,
    UnknownOutcomeError,
    ValueTooLargeError,
    at_seams,
    in_parts,
    operations_bytes,
)
from pybroker.errors import FatalError, KafkaError
from pybroker.protocol.error_codes import ErrorCode


class ResignedError(KafkaError):
    """This broker is no longer the controller."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        super().__init__(code, message)


class DecisionWriter(Protocol):
    """Makes the decisions of one term durable."""

    def give_up(self) -> None:
        """Stop waiting for the store: another broker is the controller, or the broker stops."""
        ...

    def changes_anything(self, decision: Decision) -> bool:
        """Return whether a decision has to be written. If not, the controller calls `confirm` instead of
        `write_decision`."""
        ...

    async def write_decision(
        self, before: ClusterImage, decision: Decision, outcome: OutcomeChange | None, begin_by: float | None
    ) -> int:
        """Make the decision durable. Return the end of the metadata log, or -1 if the store has no log.

        `before`: the image from which the decision was made. `outcome`: the record of the reply, for retries. Raises
        the same errors as `Writer.write`.
        """
        ...

    async def confirm(self, by: float | None = None) -> None:
        """Wait for proof that this broker was the controller at some time after the call. Raises ResignedError if it is
        no longer the controller, KafkaError REQUEST_TIMED_OUT if the store has not responded by `by` (loop time)."""
        ...


class Writer:
    """Writes the decisions of one term to a metadata store: a `DecisionWriter`."""

    def __init__(self, store: MetadataStore, term: ControllerTerm) -> None:
        self._store = store
        self._term = term
        self._number = term.decisions
        self._given_up = False

    def give_up(self) -> None:
        """Stop waiting for an unreachable store: another broker is the controller, or the broker stops."""
        self._given_up = True

    def changes_anything(self, decision: Decision) -> bool:
        """Return whether the decision has operations for the store."""
        return bool(decision.operations)

    async def write_decision(
        self, before: ClusterImage, decision: Decision, outcome: OutcomeChange | None, begin_by: float | None
    ) -> int:
        """Write the operations of a decision."""
        del before
        await self.write(
            decision.operations,
            separable=decision.separable,
            seams=decision.seams,
            outcome=() if outcome is None else outcome.operations,
            begin_by=begin_by,
        )
        return -1

    async def write(
        self,
        operations: Sequence[Operation],
        *,
        separable: bool = False,
        seams: Sequence[int] = (),
        outcome: Sequence[Operation] = (),
        begin_by: float | None = None,
    ) -> None:
        """Write operations durably. Wait while the store is unreachable; after `begin_by` (loop time), wait only if the
        write may already have been sent.

        `separable` allows several multis, in order, with a split at any index. Otherwise operations that exceed one
        multi are split only at the indexes in `seams`. `outcome`: the record of the reply, for retries of the request.

        Raises ResignedError if another controller is active; KafkaError INVALID_REQUEST if the write is too large for
        the store (nothing is changed), KAFKA_STORAGE_ERROR if the store has failed, REQUEST_TIMED_OUT if the write
        could not be sent by `begin_by` (nothing is changed); FatalError if another program writes to the store.
        """
        split = partial(_in_multis, operations, seams, separable)
        parts = await run_apart(split, large=len(operations) > PART_OPERATIONS_MAX)
        # Write the outcome last. If a crash prevents this write, the next controller decides the missing part again.
        parts[-1] = (*parts[-1], *outcome)
        for number, part in enumerate(parts):
            try:
                await self._write(part, again=bool(outcome), begin_by=None if number else begin_by)
            except ResignedError as error:
                if number and not separable:
                    # A part is already written. The next controller completes or undoes the decision.
                    raise ResignedError(
                        "Another broker has become controller, and the change may or may not be made. Read the "
                        "current state before you try again.",
                        ErrorCode.REQUEST_TIMED_OUT,
                    ) from error
                raise

    async def _write(self, operations: Sequence[Operation], *, again: bool, begin_by: float | None) -> None:
        number = self._number + 1
        count = Set(znodes.DECISIONS, str(number).encode())
        while True:
            try:
                await self._store.multi([self._term.check(), count, *operations])
                break
            except MultiError as error:
                raise self._refused(error) from error
            except UnknownOutcomeError:
                if await self._was_done(number, again):
                    break
            except UnavailableError as error:
                # This attempt was not sent, and all earlier attempts have certainly failed.
                self._unless_given_up(error, begin_by)
            except StoreClosedError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            except StoreError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        self._number = number

    async def confirm(self, by: float | None = None) -> None:
        """Wait until the store confirms that this broker is still the controller. A controller that does not know about
        its successor must not refuse an event, and must not respond to an event that needs no write.

        Raises ResignedError if another controller is active, KafkaError REQUEST_TIMED_OUT if the store has not
        confirmed by `by` (loop time).
        """
        _, epoch = await self._look(by, count=False)
        if epoch != self._term.epoch_version:
            raise ResignedError("This broker is no longer controller.")

    async def _was_done(self, number: int, again: bool) -> bool:
        count, epoch = await self._look(None, count=True)
        if epoch != self._term.epoch_version:
            # NOT_CONTROLLER makes the caller retry: the next controller has read the recorded outcome, if there is one.
            raise ResignedError(
                "Another broker has become controller, and the change may or may not be made. Read the current "
                "state before you try again.",
                ErrorCode.NOT_CONTROLLER if again else ErrorCode.REQUEST_TIMED_OUT,
            )
        return count == number

    async def _look(self, by: float | None, *, count: bool) -> tuple[int | None, int]:
        """Return the decision count (None unless requested) and the version of the controller epoch, as soon as the
        store responds."""
        while True:
            try:
                # The ZooKeeper server of this session may not have the latest writes yet.
                await self._store.sync()
                # Read the count before the epoch, because a new controller changes the epoch first and then the count.
                made = znodes.decode_decisions((await self._store.get(znodes.DECISIONS)).data) if count else None
                return made, (await self._store.get(znodes.CONTROLLER_EPOCH)).version
            except UnavailableError as error:
                self._unless_given_up(error, by)
            except StoreClosedError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _unless_given_up(self, error: StoreError, by: float | None = None) -> None:
        if self._given_up:
            raise ResignedError(f"This broker is no longer controller: {error}") from error
        if by is not None and asyncio.get_running_loop().time() >= by:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Nothing was changed: {error}") from error

    @staticmethod
    def _refused(error: MultiError) -> Exception:
        if error.index == 0:
            return ResignedError("This broker is no longer controller.")
        if isinstance(error.cause, ValueTooLargeError):
            return KafkaError(
                ErrorCode.INVALID_REQUEST, f"The metadata store does not accept a value of this size: {error.cause}"
            )
        # The write fits the image but not the store: another program has written to the store.
        return FatalError(f"another program has changed the metadata store: {error.cause!r}")


def _in_multis(operations: Sequence[Operation], seams: Sequence[int], separable: bool) -> list[Sequence[Operation]]:
    """Split operations into multis. Raises KafkaError INVALID_REQUEST if an operation or an atomic unit is too large
    for the store."""
    parts = list(in_parts(operations)) if separable else at_seams(operations, seams)
    for part in parts if len(parts) > 1 else ():
        if operations_bytes(part) > MULTI_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The change is too large for one write to the metadata store.")
    return parts
