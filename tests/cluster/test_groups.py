"""Groups over several brokers: the coordinator of a group is the leader of its partition. After a failover,
acknowledged state exists, and members that were replaced cannot commit. Also producer ids."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import pause
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, ClusterBroker, isr, new_cluster, until
from tests.wire.client import WireClient

GROUP, TOPIC, OFFSETS = "group", "read", "__consumer_offsets"
ANSWER_S = 5.0
"""Time limit for the response of a broker that may be paused."""


def coordinator_at(broker: ClusterBroker, patience_s: float = 60.0) -> tuple[int, int]:
    """Return error code and broker id of the coordinator, as this broker reports it."""
    with WireClient(broker.port, timeout_s=patience_s) as client:
        (found,) = client.call(m.FindCoordinatorRequest(coordinator_keys=[GROUP]), 4).coordinators
    return found.error_code, found.node_id


def commit_request(offset: int) -> m.OffsetCommitRequest:
    """Return a commit for a group without members."""
    partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = m.OffsetCommitRequest_OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return m.OffsetCommitRequest(group_id=GROUP, topics=[topic])


def code_of(answer: m.OffsetCommitResponse) -> int:
    """Return the error code of the only partition."""
    return int(answer.topics[0].partitions[0].error_code)


class Group:
    """A group that commits at its current coordinator."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        self.committed = 0

    def coordinator(self, *but: int) -> int:
        """Return the coordinator, according to all brokers except `but`."""
        found: list[int] = []

        def told() -> bool:
            for number, broker in self.cluster.brokers.items():
                if number not in but:
                    try:
                        code, coordinator = coordinator_at(broker, ANSWER_S)
                    except OSError:
                        continue
                    if code == 0 and coordinator not in but:
                        found.append(coordinator)
                        return True
            return False

        until(told)
        return found[-1]

    def commit(self, *but: int) -> None:
        """Commit the next offset; return when it is acknowledged."""

        def acknowledged() -> bool:
            broker = self.cluster.brokers[self.coordinator(*but)]
            try:
                with WireClient(broker.port, timeout_s=ANSWER_S) as client:
                    return code_of(client.call(commit_request(self.committed + 1), 8)) == 0
            except OSError:
                return False

        until(acknowledged)
        self.committed += 1

    def shown(self, *but: int) -> int:
        """The committed offset that a coordinator returns."""
        found: list[int] = []

        def told() -> bool:
            broker = self.cluster.brokers[self.coordinator(*but)]
            topic = m.OffsetFetchRequest_OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
            group = m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
            try:
                with WireClient(broker.port, timeout_s=ANSWER_S) as client:
                    (answer,) = client.call(m.OffsetFetchRequest(groups=[group]), 8).groups
            except OSError:
                return False
            if answer.error_code:
                return False
            found.append(answer.topics[0].partitions[0].committed_offset)
            return True

        until(told)
        return found[-1]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    """Three brokers, two of which are running."""
    folder = tmp_path_factory.mktemp("groups")
    settings = {"offsets.topic.num.partitions": "1", "min.insync.replicas": "2"}
    with new_cluster(folder, 3, settings, store) as cluster:
        # Start both before waiting: there is no cluster before a voter has founded it.
        for number in (1, 2):
            cluster.brokers[number].launch()
        for number in (1, 2):
            cluster.brokers[number].await_answers()
        yield cluster


@pytest.fixture(scope="module")
def cluster(few: BrokerCluster) -> BrokerCluster:
    """All three brokers are running, and groups can commit."""
    if not few.brokers[3].running:
        # Commits of groups need three brokers: with two there is no coordinator.
        for number in (1, 2):
            assert coordinator_at(few.brokers[number])[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with blocking.AdminClient({"bootstrap.servers": few.brokers[1].bootstrap}) as admin:
            assert OFFSETS not in admin.list_topics(list_internal=True)
        few.brokers[3].start()
        until(lambda: coordinator_at(few.brokers[1])[0] == 0)
        with blocking.AdminClient({"bootstrap.servers": few.bootstrap}) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 3)])
    return few


@pytest.fixture(scope="module")
def group(cluster: BrokerCluster) -> Group:
    """A group with a commit."""
    group = Group(cluster)
    group.commit()
    return group


@pytest.mark.checklist("R34")
def test_internal_topics_are_made_when_there_are_brokers_enough(cluster: BrokerCluster) -> None:
    """The first responses are COORDINATOR_NOT_AVAILABLE (see the fixture). Then the topics are created with as many
    replicas as the settings require."""
    until(lambda: isr(cluster, OFFSETS) == [{1, 2, 3}])


@pytest.mark.checklist("R34")
@pytest.mark.parametrize("how", ["kill -9", "clean stop"])
def test_a_coordinator_goes_and_no_commit_with_it(group: Group, how: str) -> None:
    """The new coordinator has the acknowledged state and nothing else; the group continues at another broker."""
    brokers = group.cluster.brokers
    for _ in range(20):
        group.commit()
    gone = group.coordinator()
    began = time.monotonic()
    if how == "clean stop":
        brokers[gone].stop()
    else:
        brokers[gone].kill()
    group.commit(gone)
    print(f"{how}: the group's next commit was acknowledged after {time.monotonic() - began:.2f} s")
    assert group.shown(gone) == group.committed
    brokers[gone].start()
    until(lambda: isr(group.cluster, OFFSETS) == [{1, 2, 3}])
    assert group.shown() == group.committed


@pytest.mark.checklist("R34")
def test_a_coordinator_that_was_paused_commits_nothing(group: Group) -> None:
    """The coordinator was paused for longer than its session while another broker took over. Requests that it gets
    before it knows that are not acknowledged, and their effects are never visible."""
    brokers = group.cluster.brokers
    paused = group.coordinator()
    with WireClient(brokers[paused].port) as client:
        pause(brokers[paused].pid)
        try:
            client.send(commit_request(1_000_000), 8)
            began = time.monotonic()
            group.commit(paused)
            print(f"paused: the group's next commit was acknowledged after {time.monotonic() - began:.2f} s")
        finally:
            os.kill(brokers[paused].pid, signal.SIGCONT)
        assert code_of(client.receive()) != 0
    group.commit()
    until(lambda: isr(group.cluster, OFFSETS) == [{1, 2, 3}])
    for broker in brokers.values():
        until(lambda broker=broker: coordinator_at(broker)[0] == 0)
    assert group.shown() == group.committed


def test_no_id_of_a_producer_is_given_twice(cluster: BrokerCluster) -> None:
    """Brokers allocate blocks from the store at the same time, and again after a kill."""

    def ids(broker: ClusterBroker) -> list[int]:
        with WireClient(broker.port) as client:
            request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            answers = [client.call(request, 4) for _ in range(300)]
        assert {one.error_code for one in answers} == {0}
        return [one.producer_id for one in answers]

    found: list[int] = []
    for _ in range(2):
        with ThreadPoolExecutor(6) as threads:
            for given in threads.map(ids, [*cluster.brokers.values()] * 2):
                found += given
        cluster.brokers[2].restart(crash=True)
    assert len(set(found)) == len(found) == 3_600
