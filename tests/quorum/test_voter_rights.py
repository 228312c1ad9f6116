"""Permissions for describing and changing the voters of the metadata log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker import Broker
from pybroker.broker.security.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.security.kit import ROOT, call, create_acls, entry, login, secure_broker

DENIED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
REQUESTS = [
    (m.DescribeQuorumRequest(), AclOperation.DESCRIBE, ErrorCode.NONE),
    (m.AddRaftVoterRequest(cluster_id="other"), AclOperation.ALTER, ErrorCode.INCONSISTENT_CLUSTER_ID),
    (m.RemoveRaftVoterRequest(cluster_id="other"), AclOperation.ALTER, ErrorCode.INCONSISTENT_CLUSTER_ID),
    (m.UnregisterControllerRequest(controller_id=9), AclOperation.ALTER, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    (m.TransferQuorumLeaderRequest(timeout_ms=5000), AclOperation.ALTER, ErrorCode.INVALID_REQUEST),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "node.id": 1,
        "metadata.store": "quorum",
        "listeners": f"SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,BETWEEN://127.0.0.1:{free_port()}",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT",
        "inter.broker.listener.name": "BETWEEN",
    }
    users = [user_of(number, case) for number in range(len(REQUESTS)) for case in ("none", "allowed", "other")]
    with secure_broker(users, settings) as broker:
        yield broker


def user_of(number: int, case: str) -> str:
    return f"{case}-{number}"


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_rights(broker: Broker, number: int) -> None:
    request, needed, code = REQUESTS[number]
    # DESCRIBE_CONFIGS and ALTER_CONFIGS do not imply DESCRIBE or ALTER.
    create_acls(
        login(broker, ROOT),
        entry(user_of(number, "allowed"), needed, ResourceType.CLUSTER, CLUSTER_NAME),
        entry(user_of(number, "other"), AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
    )

    def answer_of(user: str) -> Any:
        return call(login(broker, user), request).error_code

    assert answer_of(user_of(number, "none")) == DENIED
    assert answer_of(user_of(number, "other")) == DENIED
    assert answer_of(user_of(number, "allowed")) == code
