"""A producer's id and epoch (KIP-98), and the next epoch after a gap (KIP-360)."""

from __future__ import annotations

from typing import Any

from pybroker.client.client_errors import broker_error
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Network
from pybroker.protocol import messages as m

_EPOCH_MAX = 0x7FFE
"""The last epoch that has a successor under the same producer id."""


class ProducerId:
    """current: (id, epoch) for new batches; None before `obtain`, and when all epochs of the id are used."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.current: tuple[int, int] | None = None

    def next_epoch(self) -> None:
        """Increase the epoch. Sequences begin at 0 again; brokers distinguish them from earlier sequences by the new
        epoch.
        """
        if self.current is not None:
            producer_id, epoch = self.current
            self.current = (producer_id, epoch + 1) if epoch < _EPOCH_MAX else None

    async def obtain(self) -> None:
        """Get an id from any broker. Raises KafkaError if the brokers refuse, a connection error if no broker can be
        reached.
        """

        async def ask(connection: BrokerConnection) -> Any:
            answer = await connection.request(
                m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
            )
            if answer.error_code:
                raise broker_error(answer.error_code, about="producer id")
            return answer

        answer = await self._network.attempt("any", ask, about="producer id")
        self.current = (answer.producer_id, answer.producer_epoch)
