"""ElectLeaders. The controller checks the names and elects."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pybroker.broker.cluster.controller_client import ControllerPort
from pybroker.broker.cluster.events import ElectedPartition, ElectionOutcome, ElectLeaders
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode


class ElectionAdmin:
    def __init__(self, port: ControllerPort) -> None:
        self._port = port

    async def elect(
        self, partitions: Sequence[ElectedPartition] | None, timeout_ms: int, *, unclean: bool, caller: Caller
    ) -> list[ElectionOutcome]:
        """Elect leaders and return one result per partition, in order. With `partitions` None, return the partitions
        that needed an election. On success this broker already shows the new leader. Raises KafkaError if no controller
        is available."""
        if partitions is not None:
            # Remove duplicates: the second election of a partition would answer ELECTION_NOT_NEEDED.
            partitions = tuple(dict.fromkeys(partitions))
        answer = await self._port.submit(ElectLeaders(unclean, partitions), timeout_ms, caller=caller)
        if answer.in_force:
            return answer.reply
        late = "The leader is elected, but not all brokers have applied the change yet."
        return [
            one
            if one.error_code
            else msgspec.structs.replace(one, error_code=int(ErrorCode.REQUEST_TIMED_OUT), error_message=late)
            for one in answer.reply
        ]
