"""The memory for transactional ids is limited: any client that may write can use any number of them."""

from __future__ import annotations

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.conftest import StartBroker
from tests.groups.test_storm import metrics
from tests.support.cluster import until
from tests.wire.client import WireClient

NAME_BYTES = 30_000
TOTAL_MAX = 200_000
RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


def initialized(client: WireClient, transactional_id: str) -> ErrorCode:
    """Return the response to InitProducerId, once the coordinator is there."""
    request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    codes: list[ErrorCode] = []

    def answered() -> bool:
        codes.append(ErrorCode(client.call(request, 4).error_code))
        return codes[-1] not in RETRIED

    until(answered)
    return codes[-1]


def test_transactional_ids_have_a_limit_together(start_broker: StartBroker) -> None:
    port = free_port()
    broker = start_broker(
        {"transactional.id.max.bytes.total": str(TOTAL_MAX), "metrics.listener": f"127.0.0.1:{port}"}
    )
    names = [f"{number}".rjust(NAME_BYTES, "t") for number in range(4)]

    def check() -> None:
        with WireClient(broker.port) as client:
            client.call(m.FindCoordinatorRequest(key_type=1, coordinator_keys=names), 4)
            assert [initialized(client, name) for name in names[:3]] == [ErrorCode.NONE] * 3
            assert initialized(client, names[3]) is ErrorCode.POLICY_VIOLATION
            assert initialized(client, names[0]) is ErrorCode.NONE, "known ids go on"
        assert metrics(port)["pybroker_transactional_id_bytes"] == 3 * (2 * NAME_BYTES + 500)
        assert metrics(port)["pybroker_transactional_ids_refused_total"] == 1

    check()
    broker.restart()
    check()
