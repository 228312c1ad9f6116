"""`ingest.quota.topic.bytes.per.second`: a topic's ingests have their own rate, and other topics do not wait for it."""

from __future__ import annotations

import pybroker
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import COMMITTED, Attempt, IngestClient, batch

QUOTA = "ingest.quota.topic.bytes.per.second"


def test_a_topic_has_a_rate_of_its_own() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client:
        slow = client.create("slow", 1, {QUOTA: "50"})
        free = client.create("free", 1)
        epochs = {name: client.begin(slow, name).epoch for name in ("first", "second")}
        other = client.begin(free, "other").epoch
        attempt = Attempt(0)
        data = batch(["x" * 2000])
        taken = client.append_raw(slow, "first", epochs["first"], attempt, [(0, 0, data)])
        assert taken.error_code == 0
        assert taken.throttle_time_ms > 30_000
        attempt.add(0, data, 1)
        early = client.append_raw(slow, "second", epochs["second"], Attempt(0), [(0, 0, batch(["y"]))])
        assert early.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert f"{QUOTA} is used up" in early.error_message
        assert 0 < early.throttle_time_ms <= 45_000
        for sequence in range(3):
            at_once = client.append_raw(free, "other", other, Attempt(0), [(0, sequence, batch(["y"]))])
            assert (at_once.error_code, at_once.throttle_time_ms) == (0, 0)
        assert client.commit(slow, "first", epochs["first"], [attempt]).state == COMMITTED
        # The setting applies to later ingests.
        client.alter("slow", {QUOTA: str(2**63 - 1)})
        third = client.begin(slow, "third").epoch
        answer = client.append_raw(slow, "third", third, Attempt(0), [(0, 0, data)])
        assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
