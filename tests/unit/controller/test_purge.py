"""The decision on purges."""

from __future__ import annotations

import msgspec
import pytest

from pybroker.broker.cluster.events import PurgedTopic, PurgeTopics
from pybroker.broker.controller.purge import decide_purge
from pybroker.broker.metadata.deletion_records import DELETING, FOUND, REMOVED, STAGED, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster, created, deleted


def image(state: str = STAGED, **changes: object) -> tuple[ClusterImage, DeletionRecord]:
    """Return an image with one deleted topic."""
    made = deleted(created(cluster(1, 2), "a", factor=2), "a")
    (record,) = made.deletions.values()
    record = msgspec.structs.replace(record, state=state, deleted_ms=1_000, remove_after_ms=11_000, **changes)
    return made.apply(ImageDelta(deletions=(record,))), record


def purge(of: ClusterImage, topic_id: Uuid, delay_ms: int = 0) -> tuple[object, DeletionRecord | None]:
    """Return the reply, and the record if it was written."""
    decision = decide_purge(of, PurgeTopics((topic_id,), "User:a", 5_000, delay_ms))
    assert bool(decision.operations) == bool(decision.delta.deletions)
    (reply,) = decision.reply
    return reply, next(iter(decision.delta.deletions), None)


@pytest.mark.parametrize("state", [DELETING, STAGED])
def test_a_purge_closes_the_deletion_and_is_in_its_history(state: str) -> None:
    of, record = image(state)
    reply, after = purge(of, record.topic_id)
    assert reply == PurgedTopic("a", record.topic_id, 5_000)
    assert after is not None
    assert (after.state, after.closed, after.purged, after.undeletable) == (state, True, True, False)
    assert [event.what for event in after.lineage.events][-1] == "purge"
    again, written = purge(of.apply(ImageDelta(deletions=(after,))), record.topic_id)
    assert (again, written) == (reply, None)


def test_a_delay_gets_shorter_and_never_longer() -> None:
    of, record = image()
    reply, after = purge(of, record.topic_id, 6_000)
    assert reply == PurgedTopic("a", record.topic_id, 7_000)
    assert after is not None
    assert (after.delay_max_ms, after.closed, after.undeletable) == (6_000, False, True)
    shortened = of.apply(ImageDelta(deletions=(after,)))
    for longer in (6_000, 8_000, 20_000):
        assert purge(shortened, record.topic_id, longer)[1] is None
    assert purge(of, record.topic_id, 20_000) == (PurgedTopic("a", record.topic_id, 11_000), None)
    _, purged = purge(shortened, record.topic_id)
    assert purged is not None
    assert purged.purged


@pytest.mark.parametrize(
    ("state", "code"), [(UNDELETING, ErrorCode.TOPIC_ALREADY_EXISTS), (FOUND, ErrorCode.INVALID_REQUEST)]
)
def test_what_is_not_deleted_is_not_purged(state: str, code: ErrorCode) -> None:
    of, record = image(state)
    reply, after = purge(of, record.topic_id)
    assert isinstance(reply, KafkaError)
    assert (reply.code, after) == (code, None)


def test_what_lives_or_is_unknown_is_not_purged() -> None:
    of = created(image()[0], "b")
    for topic_id, expected in (
        (of.topics["b"].topic_id, ErrorCode.TOPIC_ALREADY_EXISTS),
        (Uuid.random(), ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        reply, after = purge(of, topic_id)
        assert isinstance(reply, KafkaError)
        assert (reply.code, after) == (expected, None)


def test_data_that_is_gone_is_a_success() -> None:
    of, record = image(REMOVED)
    assert purge(of, record.topic_id) == (PurgedTopic("a", record.topic_id, 11_000), None)
