"""UnregisterBroker. The controller checks that the broker is dead and has no replicas."""

from __future__ import annotations

from pybroker.broker.cluster.controller_client import ControllerPort
from pybroker.broker.cluster.events import UnregisterBroker
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode


class BrokerAdmin:
    def __init__(self, port: ControllerPort) -> None:
        self._port = port

    async def unregister(self, broker_id: int, *, caller: Caller) -> None:
        """Remove a broker from the metadata. Raises KafkaError: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST (the broker
        runs or has replicas), or an error that says that no controller is available."""
        answer = await self._port.submit(UnregisterBroker(broker_id), caller=caller)
        if not answer.in_force:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "The broker is unregistered, but this broker has not applied the change yet.",
            )
