"""A broker dies after it has staged a deleted replica and before it has confirmed that, and again while the staged
replica waits for its removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.native import Uuid
from tests.support.cluster import running_cluster, until
from tests.support.dying_cluster import step_file
from tests.support.lives_in_cluster import Everywhere

DELAY_MS = 600_000


def waits_ms(brokers: Everywhere, at: int, topic_id: Uuid) -> list[int]:
    """Return the time until a broker's staged replicas are removed, as the broker reports it."""
    found = brokers.at(at).deletions(topic_id)
    return [part.remaining_ms for one in found for part in one.partitions if part.broker_id == at]


@pytest.mark.checklist(79, 80, 82, 112, 114, "A8", "A9", "R11")
def test_a_broker_dies_between_putting_aside_and_its_answer(tmp_path: Path) -> None:
    """The controller repeats the order to the restarted broker, which has nothing left to do. The deadline of the
    removal stays the same across restarts."""
    module = ("tests.support.dying_cluster", str(tmp_path))
    settings = {"delete.topic.delay.ms": str(DELAY_MS)}
    with running_cluster(tmp_path, settings=settings, module=module) as cluster:
        brokers = Everywhere(cluster)
        controller = brokers.controller()
        dying = min({1, 2, 3} - {controller})
        broker = cluster.brokers[dying]
        topic_id = brokers.create("put-aside", 2)
        brokers.written("put-aside", "old")
        until(lambda: brokers.isr("put-aside", controller) == {1, 2, 3})
        step_file(tmp_path, dying).write_text("after replicas are put aside")
        assert brokers.at(controller).delete(topic_id).error_code == 0
        until(lambda: not broker.running)
        step_file(tmp_path, dying).unlink()
        aside = sorted((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*"))
        assert len(aside) == 2
        new = brokers.at(controller).create("put-aside", 2, replicas=2)
        broker.kill()
        broker.start()
        until(lambda: {one.state for one in brokers.at(controller).deletions(topic_id)} == {"staged"})
        assert sorted((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*")) == aside
        assert b"old" in brokers.records_of(dying, f"deleting/{topic_id.hex}_0")
        until(lambda: brokers.at(dying).metadata("put-aside").topic_id == new)
        # A clean stop stores the start of the delay. After a kill, at most the last second of it is missing.
        left = DELAY_MS
        for crash in (False, True):
            broker.restart(crash=crash)
            until(lambda: len(waits_ms(brokers, dying, topic_id)) == 2)
            now = waits_ms(brokers, dying, topic_id)
            assert 0 < max(now) < left
            left = min(now)
