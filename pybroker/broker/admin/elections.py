"""What ElectLeaders means: names are checked by the controller, which elects."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pybroker.broker.cluster.events import ElectedPartition, ElectionOutcome, ElectLeaders
from pybroker.broker.cluster.port import ControllerPort
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode


class ElectionAdmin:
    """Knows no protocol version."""

    def __init__(self, port: ControllerPort) -> None:
        self._port = port

    async def elect(
        self, partitions: Sequence[ElectedPartition] | None, timeout_ms: int, *, unclean: bool, caller: Caller
    ) -> list[ElectionOutcome]:
        """One result for each partition, in order; of all (None) those that needed an election. Success means: this
        broker shows the new leader. KafkaError: nobody decides now."""
        if partitions is not None:
            # Elected once; asked twice it would not be needed any more.
            partitions = tuple(dict.fromkeys(partitions))
        answer = await self._port.submit(ElectLeaders(unclean, partitions), timeout_ms, caller=caller)
        if answer.in_force:
            return answer.reply
        late = "The leader is elected; brokers learn of it later."
        return [
            one
            if one.error_code
            else msgspec.structs.replace(one, error_code=int(ErrorCode.REQUEST_TIMED_OUT), error_message=late)
            for one in answer.reply
        ]
