"""Internal topics: one list for the responses to clients and for refusals."""

from __future__ import annotations

import pytest

from pybroker.native import INTERNAL_TOPICS
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.topic_ids.kit import batch, create, produce
from tests.wire.client import WireClient


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_what_nobody_may_write_to_is_shown_as_internal(start_broker: StartBroker, name: str) -> None:
    with WireClient(start_broker().port) as client:
        topic_id = create(client, name).topic_id
        asked = [m.MetadataRequest_MetadataRequestTopic(name=name)]
        shown = client.call(m.MetadataRequest(topics=asked), 12).topics[0]
        assert (shown.error_code, shown.is_internal) == (0, True)
        refused = produce(client, topic_id, batch(b"theirs"))
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
