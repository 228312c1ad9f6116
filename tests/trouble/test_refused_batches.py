"""Several requests of one idempotent producer are under way; the first is refused for now."""

from __future__ import annotations

from pybroker.client import AlterConfigOp, ConfigResource, blocking
from pybroker.protocol.error_codes import ErrorCode
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import create, idempotent, produce, unique
from tests.wire.client import WireClient


def test_what_follows_a_refused_batch_is_refused_likewise(broker: BrokerProcess) -> None:
    """If the broker reported a gap instead, librdkafka would begin a new epoch and repeat batches that are in the log
    but not acknowledged yet. A gap without an earlier refusal is reported."""
    name = unique()
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin, WireClient(broker.port) as client:

        def minimum(replicas: int) -> None:
            resource = ConfigResource.topic(name)
            admin.incremental_alter_configs({resource: [AlterConfigOp("min.insync.replicas", str(replicas))]})

        def told(sequence: int) -> int:
            code: int = produce(client, topic_id, idempotent(72, sequence, b"%d" % sequence)).error_code
            return code

        topic_id = create(client, name).topic_id
        assert told(0) == ErrorCode.NONE
        minimum(2)
        assert told(1) == ErrorCode.NOT_ENOUGH_REPLICAS
        minimum(1)
        assert [told(2), told(3)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        assert [told(1), told(2), told(3)] == [ErrorCode.NONE] * 3
        assert told(5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
