"""Purges in a cluster: running brokers remove the data at once, a stopped broker when it returns. All brokers report
the same remaining data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.support.cluster import ClusterBroker, running_cluster, until
from tests.support.lives_in_cluster import Everywhere


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Everywhere]:
    """Each test leaves all of them up."""
    with running_cluster(tmp_path_factory.mktemp("purge"), survives_two_losses(store), store=store) as cluster:
        yield Everywhere(cluster)


def staged(broker: ClusterBroker, topic_id: Uuid) -> list[Path]:
    return list((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*"))


def parts(brokers: Everywhere, at: int, topic_id: Uuid) -> dict[int, tuple[str, int]]:
    """Return state and bytes of each broker's part of a topic with one partition, as one broker reports them."""
    (found,) = brokers.at(at).deletions(topic_id)
    return {one.broker_id: (one.state, one.size_bytes) for one in found.partitions}


@pytest.mark.checklist("U4", "R26", "R30")
def test_every_broker_tells_what_all_hold(brokers: Everywhere) -> None:
    controller = brokers.controller()
    hasty = max({1, 2, 3} - {controller})
    topic_id = brokers.create("told")
    brokers.written("told", "x" * 5_000)
    until(lambda: brokers.isr("told", controller) == {1, 2, 3})
    assert brokers.at(controller).delete(topic_id).error_code == 0
    until(lambda: brokers.at(controller).deletions(topic_id)[0].state == "staged")
    for at in (1, 2, 3):
        until(lambda at=at: {state for state, _ in parts(brokers, at, topic_id).values()} == {"staged"})
        (found,) = brokers.at(at).deletions(topic_id)
        assert all(size > 5_000 for _, size in parts(brokers, at, topic_id).values())
        assert found.size_bytes == sum(one.size_bytes for one in found.partitions) > 15_000
        assert 0 < found.remaining_ms <= 4 * 3_600_000
    # One broker has removed its part, and every other broker reports that.
    process = brokers.cluster.brokers[hasty]
    process.settings["delete.topic.delay.ms"] = "0"
    second = brokers.create("hasty")
    brokers.written("hasty", "y" * 5_000)
    until(lambda: brokers.isr("hasty", controller) == {1, 2, 3})
    process.restart()
    until(lambda: brokers.isr("hasty", controller) == {1, 2, 3})
    assert brokers.at(controller).delete(second).error_code == 0
    for at in (1, 2, 3):
        until(lambda at=at: parts(brokers, at, second)[hasty] == ("removed", 0))
        (found,) = brokers.at(at).deletions(second)
        assert found.size_bytes > 10_000
        assert not found.undeletable
    del process.settings["delete.topic.delay.ms"]
    process.restart()


@pytest.mark.checklist(5, 80, 144, "X7", "R30", "R32")
def test_a_broker_that_was_down_purges_when_it_is_back(brokers: Everywhere) -> None:
    controller = brokers.controller()
    away = min({1, 2, 3} - {controller})
    other = max({1, 2, 3} - {controller})
    process = brokers.cluster.brokers[away]
    topic_id = brokers.create("purged")
    brokers.written("purged", "old")
    until(lambda: brokers.isr("purged", controller) == {1, 2, 3})
    process.kill()
    until(lambda: away not in brokers.live(controller))
    # Any broker accepts the deletion and the purge.
    assert brokers.at(other).delete(topic_id).error_code == 0
    assert brokers.at(other).purge(topic_id).error_code == 0
    for number in (controller, other):
        until(lambda number=number: not staged(brokers.cluster.brokers[number], topic_id))
        until(lambda number=number: parts(brokers, number, topic_id)[away] == ("deleting", -1))
    assert (process.data_dir / "purged-0").exists()
    answer = brokers.at(controller).undelete(topic_id)
    assert (answer.error_code, "purged it at" in answer.error_message) == (ErrorCode.UNKNOWN_TOPIC_ID, True)
    # A new topic has the name meanwhile; the purge does not affect it.
    assert brokers.at(controller).create_on("purged", [controller, other]) != topic_id
    brokers.written("purged", "new", at=controller)
    process.start()
    until(lambda: brokers.at(controller).deletions(topic_id)[0].state == "removed")
    assert not (process.data_dir / "purged-0").exists()
    assert staged(process, topic_id) == []
    assert brokers.read("purged") == ["new"]


@pytest.mark.checklist(5, "R30", "R32")
def test_what_was_staged_before_a_broker_went_down_is_purged_after_a_new_controller(brokers: Everywhere) -> None:
    controller = brokers.controller()
    away = min({1, 2, 3} - {controller})
    process = brokers.cluster.brokers[away]
    topic_id = brokers.create("waits")
    brokers.written("waits", "old")
    until(lambda: brokers.isr("waits", controller) == {1, 2, 3})
    assert brokers.at(controller).delete(topic_id).error_code == 0
    until(lambda: brokers.at(controller).deletions(topic_id)[0].state == "staged")
    process.kill()
    until(lambda: away not in brokers.live(controller))
    assert brokers.at(controller).purge(topic_id).error_code == 0
    brokers.cluster.brokers[controller].kill()
    until(lambda: brokers.controller(max({1, 2, 3} - {controller})) != controller)
    assert staged(process, topic_id)
    process.start()
    brokers.cluster.brokers[controller].start()
    for broker in brokers.cluster.brokers.values():
        until(lambda broker=broker: not staged(broker, topic_id))
    until(lambda: brokers.at(away).deletions(topic_id)[0].state == "removed")
