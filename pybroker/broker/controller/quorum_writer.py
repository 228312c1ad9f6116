"""Makes decisions durable in a metadata quorum: appends the records of the decision's delta, and waits until a majority
of the voters has them."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from pybroker.broker.controller.decision import Decision
from pybroker.broker.controller.decision_writer import ResignedError
from pybroker.broker.controller.event_size import run_apart
from pybroker.broker.controller.request_deduplication import OutcomeChange
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import PART_OPERATIONS_MAX
from pybroker.broker.metadata.records.deltas import to_records
from pybroker.broker.quorum.quorum_log import MetadataLog, NotLeaderError
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class QuorumWriter:
    """The `DecisionWriter` of one epoch. It ignores a decision's operations, because only metadata stores need them."""

    def __init__(self, log: MetadataLog, epoch: int) -> None:
        self._log = log
        self._epoch = epoch

    def give_up(self) -> None:
        """Do nothing. When the node stops leading, the metadata log itself fails the pending appends."""

    def changes_anything(self, decision: Decision) -> bool:
        """Return whether the decision changes the image."""
        return not decision.delta.empty

    async def write_decision(
        self, before: ClusterImage, decision: Decision, outcome: OutcomeChange | None, begin_by: float | None
    ) -> int:
        """Wait until the decision's records are committed. Return the end of the log."""
        if begin_by is not None and asyncio.get_running_loop().time() >= begin_by:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Nothing was changed in time. Try again.")
        delta = decision.delta if outcome is None else _with_outcome(decision.delta, outcome)
        encode = partial(to_records, before, delta)
        records = await run_apart(encode, large=len(decision.operations) > PART_OPERATIONS_MAX)
        try:
            return await self._log.propose(self._epoch, records)
        except NotLeaderError as error:
            if not error.maybe_committed or outcome is not None:
                # NOT_CONTROLLER makes the caller retry: the next controller has the recorded outcome, if there is one.
                raise ResignedError("This broker is no longer controller.") from error
            raise ResignedError(
                "Another broker has become controller, and the change may or may not be made. Read the current state "
                "before you try again.",
                ErrorCode.REQUEST_TIMED_OUT,
            ) from error

    async def confirm(self, by: float | None = None) -> None:
        """Wait until a majority confirms that this node is still the leader."""
        try:
            async with asyncio.timeout_at(by):
                await self._log.confirm(self._epoch)
        except NotLeaderError as error:
            raise ResignedError("This broker is no longer controller.") from error
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Nothing was changed: the quorum has no majority.") from None


def _with_outcome(delta: ImageDelta, outcome: OutcomeChange) -> ImageDelta:
    return msgspec.structs.replace(
        delta, outcomes={outcome.request_id: outcome.outcome}, forgotten_outcomes=outcome.forgotten
    )
