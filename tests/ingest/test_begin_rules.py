"""The response to begin applies to the whole ingest, even if the topic's configs change."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import APPEND_TIME, COMMITTED, GZIP, Attempt, IngestClient, batch, zipped
from tests.ingest.crashing import Crashing
from tests.ingest.test_ingest import until

LOOSE = {
    "message.timestamp.type": "CreateTime",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "cleanup.policy": "delete",
}
STRICT = {
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "gzip",
    "max.message.bytes": "500",
    "cleanup.policy": "compact",
}
PLAIN = batch(["x" * 1000], key=None)
ZIPPED = zipped(batch(["x" * 1000]))


def rules(begun: Any) -> tuple[int, str, int, bool]:
    assert begun.error_code == 0, begun
    return begun.timestamp_type, begun.compression_type, begun.max_message_bytes, begun.keys_required


LOOSE_RULES = (0, "producer", 1048588, False)
STRICT_RULES = (1, "gzip", 500, True)


def stage(client: IngestClient, topic_id: Uuid, epoch: int, attempt: Attempt, data: bytes) -> int:
    answer = client.append_raw(topic_id, "job", epoch, attempt, [(0, attempt.rows.get(0, 0), data)])
    assert answer.error_code == 0, answer
    code = int(answer.partitions[0].error_code)
    if code == 0:
        attempt.add(0, data, 1)
    return code


def check_strict(client: IngestClient, topic_id: Uuid, epoch: int, attempt: Attempt) -> None:
    for wrong, code in (
        (batch(["x" * 1000]), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(["x"]), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (zipped(batch(["x"], key=None)), ErrorCode.INVALID_RECORD),
    ):
        assert stage(client, topic_id, epoch, attempt, wrong) == code
    assert stage(client, topic_id, epoch, attempt, ZIPPED) == 0


def test_a_topic_that_becomes_stricter(crashing: Crashing) -> None:
    crashing.start()
    topic_id = crashing.client.create("t", 1, LOOSE)
    begun = crashing.client.begin(topic_id, "job")
    assert rules(begun) == LOOSE_RULES
    crashing.client.alter("t", STRICT)
    assert rules(crashing.client.begin(topic_id, "later")) == STRICT_RULES
    attempt = Attempt(0)
    assert stage(crashing.client, topic_id, begun.epoch, attempt, PLAIN) == 0
    crashing.kill()
    crashing.start()
    assert rules(crashing.client.begin(topic_id, "job", join=True)) == LOOSE_RULES
    assert stage(crashing.client, topic_id, begun.epoch, attempt, PLAIN) == 0
    assert crashing.client.commit(topic_id, "job", begun.epoch, [attempt]).state == COMMITTED
    assert [attributes for attributes, _ in crashing.client.headers(topic_id, 0)] == [0, 0]
    assert [value for _, value in crashing.client.read(topic_id, 0)] == ["x" * 1000] * 2
    assert rules(crashing.client.begin(topic_id, "job")) == LOOSE_RULES, "of the commit that is remembered"
    crashing.stop()


def test_a_topic_that_becomes_looser(crashing: Crashing) -> None:
    crashing.start()
    topic_id = crashing.client.create("t", 1, STRICT)
    begun = crashing.client.begin(topic_id, "job")
    assert rules(begun) == STRICT_RULES
    crashing.client.alter("t", LOOSE)
    assert rules(crashing.client.begin(topic_id, "later")) == LOOSE_RULES
    attempt = Attempt(0)
    check_strict(crashing.client, topic_id, begun.epoch, attempt)
    crashing.kill()
    crashing.start()
    assert rules(crashing.client.begin(topic_id, "job", join=True)) == STRICT_RULES
    check_strict(crashing.client, topic_id, begun.epoch, attempt)
    assert crashing.client.commit(topic_id, "job", begun.epoch, [attempt]).state == COMMITTED
    (one, stamped), (two, stamped_too) = crashing.client.headers(topic_id, 0)
    assert one == two == APPEND_TIME | GZIP
    assert stamped == stamped_too, "the time of the commit"
    crashing.stop()


@pytest.mark.parametrize("step", ["after commit is stored", "link after commit is stored"])
@pytest.mark.parametrize(("at_begin", "changed", "bit"), [(LOOSE, STRICT, 0), (STRICT, LOOSE, APPEND_TIME)])
def test_a_decided_commit_is_finished_by_the_rules_of_its_begin(
    crashing: Crashing, step: str, at_begin: dict[str, str], changed: dict[str, str], bit: int
) -> None:
    crashing.start(step)
    client = crashing.client
    topic_id = client.create("t", 1, at_begin)
    epoch = client.begin(topic_id, "job").epoch
    attempt = Attempt(0)
    assert stage(client, topic_id, epoch, attempt, ZIPPED) == 0
    client.alter("t", changed)
    with contextlib.suppress(ConnectionError):
        client.commit(topic_id, "job", epoch, [attempt])
    crashing.dies()
    crashing.start()
    # The broker completes the commit without a request.
    until(lambda: len(crashing.client.headers(topic_id, 0)) == 1)
    [(attributes, _)] = crashing.client.headers(topic_id, 0)
    assert attributes == bit | GZIP
    crashing.stop()
