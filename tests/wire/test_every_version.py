"""A running broker responds to every version that it advertises, in that version's layout."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing import Cluster
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(int(broker.bootstrap.rpartition(":")[2])) as connected:
        yield connected


@pytest.fixture(scope="module")
def quorum_client() -> Iterator[WireClient]:
    with Cluster(1) as cluster, WireClient(int(cluster.bootstrap.rpartition(":")[2])) as connected:
        yield connected


WITHOUT_PLUG_IN = {"StreamsGroupTopologyDescriptionUpdate"}
"""Refused like a Kafka without the plug-in, with the same code."""
OF_QUORUM = {"DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter", "UnregisterController", "TransferQuorumLeader"}
"""Served only with metadata.store=quorum."""

SERVED = [row for row in native.api_table() if row.served]
OF_ALL = [row for row in SERVED if row.name not in OF_QUORUM]


def advertised(client: WireClient) -> list[tuple[int, int, int]]:
    answer = client.call(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    return sorted((key.api_key, key.min_version, key.max_version) for key in answer.api_keys)


def in_table(rows: list[native.ApiInfo]) -> list[tuple[int, int, int]]:
    return [(row.key, row.min_version, row.max_version) for row in rows]


def test_advertised_versions_are_the_tables(client: WireClient, quorum_client: WireClient) -> None:
    assert advertised(client) == in_table(OF_ALL)
    assert advertised(quorum_client) == in_table(SERVED)


@pytest.mark.parametrize("row", [row for row in SERVED if row not in OF_ALL], ids=lambda row: row.name)
def test_a_quorum_answers_every_version(quorum_client: WireClient, row: native.ApiInfo) -> None:
    answered_in_its_layout(quorum_client, row)


@pytest.mark.checklist("D38")
@pytest.mark.parametrize("row", OF_ALL, ids=lambda row: row.name)
def test_every_version_is_answered_in_its_layout(client: WireClient, row: native.ApiInfo) -> None:
    answered_in_its_layout(client, row)


def answered_in_its_layout(client: WireClient, row: native.ApiInfo) -> None:
    made = native.message_class(f"{row.name}Request")
    assert made is not None
    for version in range(row.min_version, row.max_version + 1):
        request = made()
        if isinstance(request, m.ProduceRequest):
            request.acks = -1
        if isinstance(request, m.ApiVersionsRequest):
            request.client_software_name = request.client_software_version = "x"
        # The test is that the response decodes to its last byte; the error code may be a refusal, but not "unknown" or
        # "bug".
        answer = client.call(request, version)
        code = getattr(answer, "error_code", 0)
        assert code != ErrorCode.UNKNOWN_SERVER_ERROR
        assert (code == ErrorCode.UNSUPPORTED_VERSION) == (row.name in WITHOUT_PLUG_IN)
