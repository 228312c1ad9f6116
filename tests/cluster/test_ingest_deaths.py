"""A broker dies at one step of an ingest. Afterwards the records are on all replicas once, or on none, and the client
continues at the next leader."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pybroker.testing.cluster import Store
from tests.ingest.client import COMMITTED, Attempt
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.support.cluster_ingest import (
    ClusterIngest,
    await_all_in_sync,
    create,
    leader,
    logs,
    patiently,
    records,
    staged_files,
)
from tests.support.dying_cluster import step_file

PARTITIONS = 3
BATCHES = 4


class Dying:
    """A cluster whose brokers die at the steps that a test chooses."""

    def __init__(self, cluster: BrokerCluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self.controller = 1

    def dies(self, broker: int, step: str) -> None:
        """Let the broker die at that step."""
        step_file(self._folder, broker).write_text(step)

    def has_died(self, broker: int) -> bool:
        """Return whether the broker has died."""
        return self.cluster.brokers[broker].ended() is not None

    def bring_back(self, topic: str) -> None:
        """Start all brokers, and wait until all replicas are in sync."""
        for number, broker in self.cluster.brokers.items():
            step_file(self._folder, number).unlink(missing_ok=True)
            broker.ended()
            if not broker.running:
                broker.start()
        await_all_in_sync(self.cluster, topic)


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Dying]:
    """Three brokers that link the segments of ingests."""
    folder = tmp_path_factory.mktemp("dying")
    module = ("tests.support.dying_cluster", str(folder))
    with running_cluster(folder, settings={"ingest.copy.bytes.max": "0"}, module=module, store=store) as running:
        yield Dying(running, folder)


def staged(ingest: ClusterIngest) -> tuple[Attempt, list[list[str]]]:
    """Stage one attempt with records for each partition; return the records."""
    attempt = Attempt(0)
    expected: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for number in range(BATCHES):
        for partition in range(PARTITIONS):
            some = [f"{partition}-{number}-{index}" for index in range(5)]
            ingest.append(attempt, partition, some)
            expected[partition] += some
    return attempt, expected


def check_whole(dying: Dying, ingest: ClusterIngest, expected: list[list[str]]) -> None:
    """Check that the records are on all replicas once, with the same bytes, and that no other files of the ingest are
    left."""
    cluster, topic = dying.cluster, ingest.topic
    # A new leader shows committed records only after its followers have fetched them.
    until(lambda: records(cluster, topic, PARTITIONS) == expected)
    dying.bring_back(topic)
    for broker in cluster.brokers:
        until(lambda broker=broker: ingest.state(broker) == COMMITTED)
        until(lambda broker=broker: not staged_files(cluster, broker))
    until(lambda: records(cluster, topic, PARTITIONS) == expected)
    for partition in range(PARTITIONS):

        def same(partition: int = partition) -> bool:
            whole = [b"".join(each.values()) for each in logs(cluster, topic, partition)]
            return whole[0] == whole[1] == whole[2]

        until(same)


STEPS = [
    "before prepare",
    "after prepare",
    "before attach",
    "after attach",
]


@pytest.mark.checklist("R33")
@pytest.mark.parametrize("step", STEPS)
def test_a_leader_that_dies_at_a_step_of_the_commit(dying: Dying, step: str) -> None:
    topic = f"step-{STEPS.index(step)}"
    create(dying.cluster, topic, config={"min.insync.replicas": "2"})
    ingest = ClusterIngest(dying.cluster, topic, "job")
    ingest.begin(1)
    attempt, expected = staged(ingest)
    victim, asked = leader(dying.cluster, topic, 0), leader(dying.cluster, topic, 1)
    dying.dies(victim, step)
    ingest.commit([attempt], broker=asked)
    until(lambda: dying.has_died(victim))
    check_whole(dying, ingest, expected)


@pytest.mark.checklist("R33")
@pytest.mark.parametrize("step", ["before commit is stored", "after commit is stored", "after finish is stored"])
def test_a_controller_that_dies_around_the_decision(dying: Dying, step: str) -> None:
    topic = step.replace(" ", "-")
    create(dying.cluster, topic, config={"min.insync.replicas": "2"})
    ingest = ClusterIngest(dying.cluster, topic, "job")
    ingest.begin(1)
    attempt, expected = staged(ingest)
    for broker in dying.cluster.brokers:
        # The faults apply to the controller, because other brokers store no state of an ingest.
        dying.dies(broker, step)
    with ThreadPoolExecutor(1) as beside:
        committing = beside.submit(ingest.commit, [attempt])
        patiently(lambda: next((one for one in dying.cluster.brokers if dying.has_died(one)), None))
        for broker in dying.cluster.brokers:
            dying.dies(broker, "")
        committing.result()
    check_whole(dying, ingest, expected)


@pytest.mark.checklist("R33")
def test_leaders_are_killed_while_records_are_staged_and_while_followers_attach(dying: Dying) -> None:
    topic = "killed"
    create(dying.cluster, topic, config={"min.insync.replicas": "2"})
    ingest = ClusterIngest(dying.cluster, topic, "job")
    ingest.begin(1)
    expected: list[list[str]] = [[] for _ in range(PARTITIONS)]
    attempt = Attempt(0)
    for number in range(12):
        for partition in range(PARTITIONS):
            some = [f"{partition}-{number}-{index}" for index in range(5)]
            ingest.append(attempt, partition, some)
            expected[partition] += some
        if number == 3:
            dying.cluster.brokers[leader(dying.cluster, topic, 1)].kill()
        if number == 8:
            # The broker lacks the records that were staged while it was down; another broker dies then.
            dying.bring_back(topic)
            dying.cluster.brokers[leader(dying.cluster, topic, 2)].kill()
    ingest.commit([attempt])
    # The followers may not have linked everything, because the leader of one partition dies at once.
    victim = leader(dying.cluster, topic, 0)
    dying.bring_back(topic)
    dying.cluster.brokers[victim].kill()
    check_whole(dying, ingest, expected)
