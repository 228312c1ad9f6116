"""Staged ingests while brokers are paused, replicas move, and disks are lost: each ingest ends, and its client gets the
outcome."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from pybroker.client import ElectionType, NewTopic, TopicPartition, blocking
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import pause
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.cluster.test_ingest_deaths import Dying
from tests.ingest.client import COMMITTED, COMMITTING, Attempt
from tests.support.cluster import running_cluster, until
from tests.support.cluster_ingest import PASSING, ClusterIngest, client, leaders, patiently, records, staged_files
from tests.support.replicas import await_unregistered, same_logs, state


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Dying]:
    folder = tmp_path_factory.mktemp("trouble")
    settings = {"ingest.copy.bytes.max": "0", "replica.lag.time.max.ms": "1500", "min.insync.replicas": "1"}
    module = ("tests.support.dying_cluster", str(folder))
    with running_cluster(folder, survives_two_losses(store), settings, module=module, store=store) as running:
        yield Dying(running, folder)


def on(trouble: Dying, topic: str, *replicas: int) -> None:
    """Create a topic with one partition."""
    with blocking.AdminClient({"bootstrap.servers": trouble.cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, replica_assignments={0: list(replicas)})])
    until(lambda: all(topic in names(trouble, number) for number in trouble.cluster.brokers))


def names(trouble: Dying, number: int) -> set[str]:
    with blocking.AdminClient({"bootstrap.servers": trouble.cluster.brokers[number].bootstrap}) as admin:
        return set(admin.list_topics())


def begun(trouble: Dying, topic: str, values: list[str], at: int = 1) -> tuple[ClusterIngest, Attempt]:
    """Begin an ingest and stage some records."""
    ingest = ClusterIngest(trouble.cluster, topic, "job")
    ingest.begin(at)
    attempt = Attempt(0)
    ingest.append(attempt, 0, values)
    return ingest, attempt


def nothing_staged(trouble: Dying, number: int) -> bool:
    return not staged_files(trouble.cluster, number)


def lose_disk(trouble: Dying, number: int) -> None:
    """Delete a broker's directories after it has ended. With new directories it counts as a different broker, which can
    register only when the old session has ended."""
    await_unregistered(trouble.cluster, number)
    for each in trouble.cluster.brokers[number].data_dir.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def committed_but_lost(trouble: Dying, ingest: ClusterIngest, attempt: Attempt, at: int) -> None:
    """Check that every retry gets the same response: the ingest is over."""

    def committed() -> Any:
        with client(trouble.cluster, at) as connection:
            answer = connection.commit(ingest.topic_id, ingest.ingest_id, ingest.epoch, [attempt])
        return None if answer.error_code in PASSING else answer

    for _ in range(2):
        answer = patiently(committed)
        assert answer.error_code == ErrorCode.LOG_DIR_NOT_FOUND, answer
        assert "Those records are lost" in answer.error_message
        assert answer.state == COMMITTED
        with client(trouble.cluster, at) as connection:
            begun = connection.begin(ingest.topic_id, ingest.ingest_id)
        assert (begun.error_code, begun.state) == (answer.error_code, COMMITTED), "whoever begins it again hears it"
        assert begun.error_message == answer.error_message


def next_job(trouble: Dying, topic: str) -> None:
    """Load the records again, as a client does that retries."""
    ingest = ClusterIngest(trouble.cluster, topic, "again")
    ingest.begin(1)
    attempt = Attempt(0)
    ingest.append(attempt, 0, ["next"])
    ingest.commit([attempt], 1)
    until(lambda: records(trouble.cluster, topic, 1) == [["next"]])


@pytest.mark.checklist("R33")
def test_what_its_only_replica_has_lost_is_not_waited_for(trouble: Dying) -> None:
    """The commit is decided, the broker with the only replica dies, and it returns with an empty disk."""
    on(trouble, "single", 3)
    ingest, attempt = begun(trouble, "single", ["gone"])
    trouble.dies(3, "before attach")
    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(ask, trouble, ingest, attempt)
        until(lambda: trouble.has_died(3))
        lose_disk(trouble, 3)
        trouble.dies(3, "")
        trouble.cluster.brokers[3].start()
        asking.result()
    until(lambda: ingest.state(1) == COMMITTED)
    committed_but_lost(trouble, ingest, attempt, 1)
    next_job(trouble, "single")


def ask(trouble: Dying, ingest: ClusterIngest, attempt: Attempt) -> None:
    """Retry the request until it is decided."""

    def decided() -> bool:
        with client(trouble.cluster, 1) as connection:
            connection.commit(ingest.topic_id, ingest.ingest_id, ingest.epoch, [attempt])
        return ingest.state(1) in (COMMITTING, COMMITTED)

    until(decided)


@pytest.mark.checklist("R33", "R29")
def test_what_all_in_sync_have_lost_ends_with_an_unclean_election(trouble: Dying) -> None:
    on(trouble, "both", 2, 3)
    ingest, attempt = begun(trouble, "both", ["gone"])
    for number in (2, 3):
        trouble.dies(number, "before attach")
    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(ask, trouble, ingest, attempt)
        for number in (2, 3):
            until(partial(trouble.has_died, number))
        for number in (2, 3):
            lose_disk(trouble, number)
            trouble.dies(number, "")
            trouble.cluster.brokers[number].start()
        with blocking.AdminClient({"bootstrap.servers": trouble.cluster.brokers[1].bootstrap}) as admin:

            def led() -> bool:
                admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("both", 0)])
                return state(trouble.cluster, "both").leader != -1

            until(led)
        asking.result()
    until(lambda: ingest.state(1) == COMMITTED)
    committed_but_lost(trouble, ingest, attempt, 1)
    next_job(trouble, "both")


@pytest.mark.checklist("R33")
@pytest.mark.parametrize("role", ["follower", pytest.param("leader", marks=pytest.mark.slow)])
def test_a_broker_is_paused_while_an_ingest_is_committed(trouble: Dying, role: str) -> None:
    """A commit waits for the paused broker until it leaves the ISR or another replica leads. When the broker resumes,
    it gets all records, too."""
    topic = f"paused-{role}"
    on(trouble, topic, 2, 3, 1)
    ingest, attempt = begun(trouble, topic, ["a", "b"])
    victim = trouble.cluster.brokers[3 if role == "follower" else 2]
    pause(victim.pid)
    try:
        ingest.commit([attempt], 1)
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    same_logs(trouble.cluster, topic)
    until(lambda: records(trouble.cluster, topic, 1) == [["a", "b"]])
    for number in trouble.cluster.brokers:
        until(partial(nothing_staged, trouble, number))


@pytest.mark.checklist("R33")
def test_replicas_move_while_records_are_staged(trouble: Dying) -> None:
    """The new replicas get the staged records before they join the ISR, and later ones; the old replicas keep nothing.
    """
    on(trouble, "moving", 1, 2)
    ingest, attempt = begun(trouble, "moving", ["a", "b"])
    with blocking.AdminClient({"bootstrap.servers": trouble.cluster.bootstrap}) as admin:
        admin.alter_partition_reassignments({TopicPartition("moving", 0): [3, 2]})
        ingest.append(attempt, 0, ["c"])
        until(lambda: set(state(trouble.cluster, "moving").replicas) == {2, 3})
        until(lambda: state(trouble.cluster, "moving").isr == {2, 3})
    ingest.append(attempt, 0, ["d"])
    ingest.commit([attempt], 1)
    same_logs(trouble.cluster, "moving")
    until(lambda: records(trouble.cluster, "moving", 1) == [["a", "b", "c", "d"]])
    for number in trouble.cluster.brokers:
        until(partial(nothing_staged, trouble, number))


@pytest.mark.checklist("R33")
def test_who_came_into_sync_between_staging_and_decision_leads_what_was_decided(trouble: Dying) -> None:
    """The follower was down while records were staged. It is in sync again, and has them. The leader dies before it
    links anything, and the follower links its own copy."""
    on(trouble, "joined", 2, 3)
    trouble.cluster.brokers[3].kill()
    until(lambda: state(trouble.cluster, "joined").isr == {2})
    ingest, attempt = begun(trouble, "joined", ["a", "b"])
    trouble.cluster.brokers[3].start()
    until(lambda: state(trouble.cluster, "joined").isr == {2, 3})
    assert any(ingest.topic_id.hex in path for path in staged_files(trouble.cluster, 3))
    trouble.dies(2, "before attach")
    ingest.commit([attempt], 1)
    until(lambda: trouble.has_died(2))
    until(lambda: leaders(trouble.cluster, "joined") == [3])
    until(lambda: records(trouble.cluster, "joined", 1) == [["a", "b"]])
    trouble.dies(2, "")
    trouble.cluster.brokers[2].start()
    same_logs(trouble.cluster, "joined")
