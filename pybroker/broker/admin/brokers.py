"""What UnregisterBroker means: the controller judges whether the broker is dead and has nothing left."""

from __future__ import annotations

from pybroker.broker.cluster.events import UnregisterBroker
from pybroker.broker.cluster.port import ControllerPort
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode


class BrokerAdmin:
    """Knows no protocol version."""

    def __init__(self, port: ControllerPort) -> None:
        self._port = port

    async def unregister(self, broker_id: int, *, caller: Caller) -> None:
        """KafkaError: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST (it runs, or has replicas), or nobody decides now."""
        answer = await self._port.submit(UnregisterBroker(broker_id), caller=caller)
        if not answer.in_force:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "It is unregistered; this broker learns of it later.")
