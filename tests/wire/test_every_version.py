"""A live broker answers every version that it advertises, in that version's layout."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(int(broker.bootstrap.rpartition(":")[2])) as connected:
        yield connected


WITHOUT_PLUG_IN = {"StreamsGroupTopologyDescriptionUpdate"}
"""Refused as by a Kafka that has no plug-in for it, which it says by this code."""

SERVED = [row for row in native.api_table() if row.served]


def test_advertised_versions_are_the_tables(client: WireClient) -> None:
    answer = client.call(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    advertised = [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys]
    assert sorted(advertised) == [(row.key, row.min_version, row.max_version) for row in SERVED]


@pytest.mark.checklist("D38")
@pytest.mark.parametrize("row", SERVED, ids=lambda row: row.name)
def test_every_version_is_answered_in_its_layout(client: WireClient, row: native.ApiInfo) -> None:
    made = native.message_class(f"{row.name}Request")
    assert made is not None
    for version in range(row.min_version, row.max_version + 1):
        request = made()
        if isinstance(request, m.ProduceRequest):
            request.acks = -1
        if isinstance(request, m.ApiVersionsRequest):
            request.client_software_name = request.client_software_version = "x"
        # That it decodes to its last byte is the test; a whole-message error may say no, but not "unknown" or "bug".
        answer = client.call(request, version)
        code = getattr(answer, "error_code", 0)
        assert code != ErrorCode.UNKNOWN_SERVER_ERROR
        assert (code == ErrorCode.UNSUPPORTED_VERSION) == (row.name in WITHOUT_PLUG_IN)
