"""Concurrent operations with deletions and re-creations, through other brokers; and a foreign tool that removes a
topic's id."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.client import KafkaError, NewPartitions, blocking
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.testing.cluster import Store
from tests.support.cluster import running_cluster, until
from tests.support.lives_in_cluster import Everywhere
from tests.support.zookeeper import zookeeper_client

ROUNDS = 12


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Everywhere]:
    """Three brokers that create topics on first use."""
    settings = {"auto.create.topics.enable": "true", "num.partitions": "2", "default.replication.factor": "3"}
    with running_cluster(tmp_path_factory.mktemp("races"), settings=settings, store=store) as cluster:
        yield Everywhere(cluster)


class Meanwhile:
    """Repeats an action on its own thread until the block ends."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.problem: BaseException | None = None
        self.done = 0

    def _run(self) -> None:
        try:
            while not self._enough.is_set():
                self._work()
                self.done += 1
        except BaseException as problem:
            self.problem = problem

    def __enter__(self) -> Meanwhile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(60)


def ids(brokers: Everywhere, name: str) -> set[Uuid]:
    """Return the topic ids that each broker shows."""
    return {brokers.at(number).metadata(name).topic_id for number in (1, 2, 3)}


def only_one_is_served(brokers: Everywhere, name: str, dead: set[Uuid]) -> None:
    """Check that all brokers show one incarnation, or none, and that no disk has a deleted incarnation in service."""
    until(lambda: len(ids(brokers, name)) == 1)
    (living,) = ids(brokers, name)
    assert living not in dead
    for broker in brokers.cluster.brokers.values():
        until(lambda broker=broker: served(broker.data_dir, name) <= {living})


def served(data_dir: Path, name: str) -> set[Uuid]:
    found = set()
    for path in data_dir.glob(f"{name}-*/partition.metadata"):
        try:
            found.add(Uuid.parse(path.read_text().split("topic_id:")[1].strip()))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.checklist(1, 2, 7, 86, 190, "R26", "A32", "A33")
def test_partitions_are_added_to_the_topic_that_was_meant(brokers: Everywhere) -> None:
    """CreatePartitions goes through one broker while the topic is deleted and created again through another. The
    request changes the topic that existed when it was sent, or fails."""
    dead: set[Uuid] = set()
    grown = 0
    with blocking.AdminClient({"bootstrap.servers": brokers.cluster.brokers[2].bootstrap}) as admin:

        def grow() -> None:
            try:
                admin.create_partitions({"grows": NewPartitions(5)})
            except KafkaError:
                return

        with Meanwhile(grow) as growing:
            for _ in range(ROUNDS):
                topic_id = brokers.at(1).create("grows", 2, replicas=3)
                assert topic_id not in dead
                # Send another request: after it, the receiving broker shows the result.
                seen = growing.done + 1
                until(lambda seen=seen: growing.done > seen or growing.problem)
                grown += any(len(brokers.at(number).metadata("grows").partitions) == 5 for number in (1, 2, 3))
                assert brokers.at(3).delete(topic_id).error_code in (0, 100)
                until(lambda topic_id=topic_id: topic_id not in ids(brokers, "grows"))
                dead.add(topic_id)
        assert growing.problem is None
    assert grown, "nothing was added in all that time"
    last = brokers.at(1).create("grows", 2, replicas=3)
    only_one_is_served(brokers, "grows", dead)
    assert ids(brokers, "grows") == {last}
    for number in (1, 2, 3):
        until(lambda number=number: len(brokers.at(number).metadata("grows").partitions) == 2)


@pytest.mark.checklist(2, 8, 110, 113, 165, "R26", "A34")
def test_a_topic_that_is_made_by_being_asked_for_is_one_topic(brokers: Everywhere) -> None:
    """Brokers get requests for a name while the topic is deleted by its id."""
    dead: set[Uuid] = set()

    def ask(number: int) -> Uuid:
        topics = [m.MetadataRequest_MetadataRequestTopic(name="asked")]
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        found: Uuid = brokers.at(number).call(request, 12).topics[0].topic_id
        return found

    def made(before: frozenset[Uuid]) -> Uuid:
        found = {Uuid.ZERO}

        def another() -> bool:
            found.clear()
            found.add(ask(1))
            return not found <= {Uuid.ZERO, *before}

        until(another)
        return found.pop()

    with Meanwhile(lambda: ask(2)) as two, Meanwhile(lambda: ask(3)) as three:
        for _ in range(ROUNDS):
            topic_id = made(frozenset(dead))
            assert brokers.at(1).delete(topic_id).error_code == 0
            dead.add(topic_id)
    assert (two.problem, three.problem) == (None, None)
    made(frozenset(dead))
    only_one_is_served(brokers, "asked", dead)


@pytest.mark.checklist(1, 45, 208, 212, "A22")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: a tool writes a znode")
def test_a_foreign_tool_takes_the_id_away(brokers: Everywhere) -> None:
    """Tools from before topic ids write the topic's node in their own format (KAFKA-14190). The next controller still
    knows the id, even without a replica."""
    controller = brokers.controller()
    topic_id = brokers.at(controller).create_on("robbed", [controller])
    brokers.written("robbed", "kept", at=controller)
    with zookeeper_client(brokers.cluster.zookeeper.address) as store:
        content = json.loads(store.get("/brokers/topics/robbed")[0])
        store.set("/brokers/topics/robbed", json.dumps({"version": 1, "partitions": content["partitions"]}).encode())
        brokers.cluster.brokers[controller].restart()
        until(lambda: b'"id"' in store.get("/brokers/topics/robbed")[0])
        assert json.loads(store.get("/brokers/topics/robbed")[0])["id"] == str(topic_id)
    until(lambda: ids(brokers, "robbed") == {topic_id})
    until(lambda: brokers.read("robbed") == ["kept"])


@pytest.mark.checklist(271, 273, 274, 275, 281, 307, 316)
def test_brokers_that_start_together_are_one_cluster(brokers: Everywhere) -> None:
    """All three were started at once on an empty store; each of them lists the topics."""

    def cluster_ids() -> set[str]:
        return {brokers.at(number).call(m.MetadataRequest(topics=[]), 12).cluster_id for number in (1, 2, 3)}

    (first,) = cluster_ids()
    brokers.create("listed")
    for number, broker in brokers.cluster.brokers.items():
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            until(lambda admin=admin: "listed" in admin.list_topics())
        assert f"cluster.id={first}" in (broker.data_dir / "meta.properties").read_text()
        assert brokers.at(number).call(m.ListTopicsRequest(), 0).error_code == 0
    for broker in brokers.cluster.brokers.values():
        broker.stop()
    brokers.cluster.start()
    assert cluster_ids() == {first}
