"""What transactional clients are told while transactions are not served: each family gives up at its first request that
is refused for good, and they do not agree which one that may be.

The coordinator is named: this broker. sarama asks for a coordinator that it cannot have fifty times, whatever the
error, and takes none of these errors for final. InitProducerId is then refused with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which is fatal for the Java client, librdkafka, kafka-python, aiokafka, franz-go
and sarama alike. A Produce with a transactional id or with transactional batches is refused with the same code
(`native/server/src/api/k00_produce`).
"""

from __future__ import annotations

from pybroker.coordinators.shards.ports import Topics
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class NoTransactions:
    """Stands where the transaction coordinator will."""

    def __init__(self, broker_id: int, topics: Topics) -> None:
        self._broker_id = broker_id
        self._topics = topics

    def find(self, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of the broker that refuses. KafkaError COORDINATOR_NOT_AVAILABLE while this broker is
        not told of itself.
        """
        endpoint = self._topics.endpoint(self._broker_id, listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._broker_id, *endpoint
