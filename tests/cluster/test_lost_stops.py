"""Brokers that execute no StopReplica: what their replicas of deleted topics become by LeaderAndIsr alone, and how
often the controller repeats the order. Only for clusters on ZooKeeper, in which controllers send these messages."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.cluster.hears import RETRIES_MAX, RETRY_S
from tests.support.cluster import LIMIT_S, BrokerCluster, running_cluster, until
from tests.support.heard import Heard
from tests.support.lives_in_cluster import Everywhere

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: StopReplica is pushed")

INCREMENTAL, FULL = 1, 2
DELAY_S = 14_400
SETTINGS = {"replica.lag.time.max.ms": "1000", "replica.socket.timeout.ms": "1000", "replica.fetch.backoff.ms": "200"}


class LossyBrokers(Everywhere):
    """Brokers that can lose StopReplica."""

    def __init__(self, cluster: BrokerCluster, folder: Path) -> None:
        super().__init__(cluster)
        self._folder = folder

    def heard(self, number: int) -> Heard:
        """The controllers' messages to a broker."""
        return Heard(self, self._folder / f"heard-{number}")

    @contextmanager
    def losing(self, *numbers: int) -> Iterator[None]:
        """Let these brokers execute no StopReplica within the block."""
        files = [self._folder / f"loses-{number}" for number in numbers]
        for file in files:
            file.touch()
        try:
            yield
        finally:
            for file in files:
                file.unlink()

    def replicated(self, name: str, *replicas: list[int]) -> Uuid:
        """Create a topic whose replicas of partition 0 all have a record and are in sync."""
        topic_id = self.at(replicas[0][0]).create_on(name, *replicas)
        self.written(name, "old")
        until(lambda: self.isr(name, self.controller()) == set(replicas[0]))
        return topic_id

    def announced(self, number: int, topic_id: Uuid) -> str:
        """Return the partitions whose removal a broker announces at WARN. Check the announced deadline against the
        settings."""
        for line in self.cluster.brokers[number].console.read_text().splitlines():
            found = re.search(r" WARN .*partitions (\S+) will be removed from disk after (\S+)", line)
            if found is None or str(topic_id) not in line:
                continue
            due = datetime.datetime.fromisoformat(found[2]) - datetime.datetime.now(datetime.UTC)
            assert DELAY_S - LIMIT_S < due.total_seconds() <= DELAY_S
            return found[1]
        return ""


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[LossyBrokers]:
    """Three brokers; every test leaves them running and without the fault."""
    folder = tmp_path_factory.mktemp("lossy")
    module = ("tests.cluster.hears", str(folder))
    with running_cluster(folder, settings=SETTINGS, module=module, store=store) as cluster:
        yield LossyBrokers(cluster, folder)


@pytest.mark.checklist(7, 64, 72, 73, 78, 79, 92, 127, 128, "A5", "A14", "R10", "X37")
def test_an_incremental_request_alone_replaces_the_earlier_incarnation(lossy: LossyBrokers) -> None:
    """An INCREMENTAL request that names neither incarnation leaves the old one in place."""
    controller = lossy.controller()
    deaf, third = sorted({1, 2, 3} - {controller})
    heard = lossy.heard(deaf)
    with lossy.losing(deaf):
        old = lossy.replicated("stale", [deaf, third, controller])
        assert lossy.at(controller).delete(old).error_code == 0
        heard.first("StopReplicaRequest", old)
        other = lossy.at(controller).create_on("other", [deaf])
        assert heard.first("LeaderAndIsrRequest", other)["type"] == INCREMENTAL
        assert b"old" in lossy.records_of(deaf, "stale-0")
        assert lossy.staged(deaf, old) == []
        new = lossy.at(controller).create_on("stale", [deaf, third, controller])
        assert {one["type"] for one in heard.said("LeaderAndIsrRequest", new)} == {INCREMENTAL}
        (aside,) = lossy.staged(deaf, old)
    assert b"old" in lossy.records_of(deaf, f"deleting/{aside.name}")
    assert lossy.announced(deaf, old) == "0"
    assert lossy.at(deaf).fetch(old).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert lossy.records_of(deaf, "stale-0") == b""
    lossy.written("stale", "new", at=controller)
    until(lambda: lossy.isr("stale", controller) == {1, 2, 3})
    assert lossy.at(deaf).read("stale") == ["new"]


@pytest.mark.checklist(5, 6, 7, 65, 66, 69, 70, 78, 79, 124, "X38", "R30", "A4")
def test_the_first_full_request_alone_settles_what_a_broker_missed(lossy: LossyBrokers) -> None:
    """The test covers a deleted topic, a topic re-created on another broker, and a replica that was reassigned."""
    controller = lossy.controller()
    away, third = sorted({1, 2, 3} - {controller})
    gone = lossy.replicated("gone", [controller, away], [away, controller])
    again, moved = (lossy.replicated(name, [controller, away]) for name in ("again", "moved"))
    lossy.cluster.brokers[away].kill()
    until(lambda: lossy.live(controller) == {1, 2, 3} - {away})
    assert [lossy.at(controller).delete(one).error_code for one in (gone, again)] == [0, 0]
    new = lossy.at(controller).create_on("again", [controller, third])
    lossy.move("moved", [controller, third])
    with lossy.losing(away):
        lossy.cluster.brokers[away].start()
        until(lambda: [len(lossy.staged(away, one)) for one in (gone, again, moved)] == [2, 1, 1])
        (request,) = [one for one in lossy.heard(away).said("LeaderAndIsrRequest") if one["type"] == FULL][-1:]
        assert not {str(one) for one in (gone, again, moved)} & {one["topic_id"] for one in request["topic_states"]}
    for name in ("gone", "again", "moved"):
        assert not list(lossy.cluster.brokers[away].data_dir.glob(f"{name}-*"))
    assert [lossy.announced(away, one) for one in (gone, again, moved)] == ["0-1", "0", "0"]
    assert lossy.at(controller).metadata("again").topic_id == new


@pytest.mark.checklist(66, 70, 117, 125, "X20", "B1")
def test_the_full_request_of_the_next_controller_alone_settles_a_deletion(lossy: LossyBrokers) -> None:
    """The controller dies before any broker has executed its StopReplica; the next controller's StopReplica is lost,
    too."""
    controller = lossy.controller()
    others = sorted({1, 2, 3} - {controller})
    doomed = lossy.replicated("doomed", others)
    with lossy.losing(*others):
        assert lossy.at(controller).delete(doomed).error_code == 0
        for number in others:
            lossy.heard(number).first("StopReplicaRequest", doomed)
            assert lossy.staged(number, doomed) == []
        lossy.cluster.brokers[controller].kill()
        until(lambda: lossy.controller(others[0]) in others)
        for number in others:
            until(lambda number=number: len(lossy.staged(number, doomed)) == 1)
            assert not (lossy.cluster.brokers[number].data_dir / "doomed-0").exists()
    lossy.cluster.brokers[controller].start()


@pytest.mark.checklist(114, 122, "R11")
def test_a_stop_that_fails_is_repeated_after_a_while(lossy: LossyBrokers) -> None:
    """The controller repeats the order until the same run of the broker executes it."""
    controller = lossy.controller()
    deaf, third = sorted({1, 2, 3} - {controller})
    pid = lossy.cluster.brokers[deaf].pid
    with lossy.losing(deaf):
        topic_id = lossy.replicated("repeated", [deaf, third])
        assert lossy.at(controller).delete(topic_id).error_code == 0
        until(lambda: len(lossy.heard(deaf).said("StopReplicaRequest", topic_id)) >= 2)
        assert lossy.staged(deaf, topic_id) == []
    until(lambda: len(lossy.staged(deaf, topic_id)) == 1)
    until(lambda: {one.state for one in lossy.at(controller).deletions(topic_id)} == {"staged"})
    assert lossy.cluster.brokers[deaf].pid == pid
    heard_at = [one["at"] for one in lossy.heard(deaf).said("StopReplicaRequest", topic_id)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(heard_at)]
    assert min(pauses) > 0.9 * RETRY_S
    # A broker that has executed it does not get it again.
    assert len(lossy.heard(third).said("StopReplicaRequest", topic_id)) == 1


@pytest.mark.checklist(123, 124)
def test_a_stop_that_always_fails_is_given_up_and_settled_by_the_next_start(lossy: LossyBrokers) -> None:
    controller = lossy.controller()
    deaf, third = sorted({1, 2, 3} - {controller})

    def given_up(topic_id: Uuid) -> bool:
        lines = lossy.cluster.brokers[controller].console.read_text().splitlines()
        return any(str(topic_id) in line and "does not confirm" in line for line in lines)

    with lossy.losing(deaf):
        first, second = (lossy.replicated(name, [deaf, third]) for name in ("first", "second"))
        for topic_id in (first, second):
            assert lossy.at(controller).delete(topic_id).error_code == 0
            until(lambda topic_id=topic_id: given_up(topic_id))
        # While the second deletion was repeated and given up, the first one got no further order.
        assert len(lossy.heard(deaf).said("StopReplicaRequest", first)) == 1 + RETRIES_MAX
        lossy.cluster.brokers[deaf].restart()
        until(lambda: [len(lossy.staged(deaf, one)) for one in (first, second)] == [1, 1])
