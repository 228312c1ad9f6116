"""Topics that are too large for one multi of ZooKeeper: after a crash behind any multi, the topic is complete, or it is
deleted and its name is free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from pybroker.broker.cluster.events import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    TruncateTopics,
    Truncation,
    UndeleteTopic,
)
from pybroker.broker.controller.decision import Decision, FencedTopics
from pybroker.broker.controller.internal_events import AdvanceDeletions, FinishUndelete, RemoveLeftovers
from pybroker.broker.controller.topic_decisions import decide_create, decide_create_partitions
from pybroker.broker.controller.topic_deletion import decide_advance, decide_delete, decide_remove_leftovers
from pybroker.broker.controller.truncate import decide_truncate
from pybroker.broker.controller.undelete import decide_finish_undelete, decide_undelete
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import BrokerImage, ClusterImage, ImageDelta
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.metadata_store import (
    DECISION_BYTES_MAX,
    Check,
    Create,
    Delete,
    Node,
    Operation,
    Set,
    at_seams,
    in_parts,
    operations_bytes,
)
from pybroker.broker.metadata.znodes import Endpoint
from pybroker.native import Uuid

NAME = "n" * 249
PARTITIONS = 10_000
BROKERS = tuple(
    BrokerImage(number, number, (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),), None) for number in (1, 2, 3)
)
pytestmark = pytest.mark.checklist("R38")


class Nodelike:
    """A store that consists only of its nodes."""

    def __init__(self, nodes: dict[str, Node] | None = None) -> None:
        self.nodes = nodes or {path: Node(b"", 0, 0, 0, 0, 0) for path in znodes.PERSISTENT_PATHS}

    def copy(self) -> Nodelike:
        return Nodelike(dict(self.nodes))

    def multi(self, operations: Iterable[Operation]) -> None:
        for one in operations:
            there = self.nodes.get(one.path)
            match one:
                case Create():
                    assert there is None, one.path
                    parent = one.path.rsplit("/", 1)[0]
                    assert parent in self.nodes, parent
                    self.nodes[one.path] = Node(one.data, 0, 0, 0, 0, 0)
                case Set():
                    assert there is not None, one.path
                    assert one.version in (-1, there.version), one.path
                    self.nodes[one.path] = Node(one.data, there.version + 1, 0, 0, 0, 0)
                case Delete():
                    assert there is not None, one.path
                    assert one.version in (-1, there.version), one.path
                    del self.nodes[one.path]
                case Check():
                    pass

    def load(self, epoch: int) -> ClusterImage:
        """Load the state as the next controller does, with its repairs."""
        trees = [
            {path: node for path, node in self.nodes.items() if path.startswith(root + "/")}
            for root in (znodes.TOPICS, "/config", "/admin")
        ]
        loaded = load_image(epoch, Nodes(*trees, broker_epochs=self.nodes[znodes.BROKER_EPOCHS].data))
        for part in in_parts(loaded.repairs):
            self.multi(part)
        return loaded.image.apply(ImageDelta(brokers=BROKERS))

    def orphans(self) -> set[str]:
        """Return nodes of partitions without a topic node, and records of undecided deletions."""
        return {
            path
            for path in self.nodes
            if path.rsplit("/", 1)[0] not in self.nodes and path.count("/") > 2 and path not in znodes.PERSISTENT_PATHS
        }


def parts_of(decision: Decision) -> list[Sequence[Operation]]:
    parts = at_seams(decision.operations, decision.seams)
    assert all(operations_bytes(part) <= DECISION_BYTES_MAX for part in parts)
    return parts


def after(store: Nodelike, image: ClusterImage, decision: Decision) -> ClusterImage:
    for part in parts_of(decision):
        store.multi(part)
    return image.apply(decision.delta)


def crashes(store: Nodelike, decision: Decision) -> Iterable[tuple[int, Nodelike, ClusterImage]]:
    """The state that the next controller finds after a crash behind each multi."""
    parts = parts_of(decision)
    assert len(parts) > 1, "it fits into one multi"
    for number in range(len(parts) + 1):
        left = store.copy()
        for part in parts[:number]:
            left.multi(part)
        yield number, left, left.load(2)


def same_as_loaded(store: Nodelike, image: ClusterImage) -> None:
    """The controller's image equals the image that another controller loads."""
    loaded = store.copy().load(1)
    assert (loaded.topics.keys(), loaded.leftovers) == (image.topics.keys(), image.leftovers)
    for name, topic in image.topics.items():
        read = loaded.topics[name]
        assert (read.topic_id, read.node_version) == (topic.topic_id, topic.node_version)
        assert [(one.leader_epoch, one.state_version, one.isr) for one in read.partitions] == [
            (one.leader_epoch, one.state_version, one.isr) for one in topic.partitions
        ]


def cleaned(store: Nodelike, image: ClusterImage) -> ClusterImage:
    for _ in range(100):
        if not image.leftovers:
            break
        image = after(store, image, decide_remove_leftovers(image, RemoveLeftovers(NAME)))
    assert not image.leftovers
    assert not [path for path in store.nodes if path.startswith(znodes.topic_path(NAME))]
    return image


@pytest.fixture(scope="module")
def empty() -> tuple[Nodelike, ClusterImage]:
    store = Nodelike()
    return store, store.load(1)


def create(image: ClusterImage, partitions: int = PARTITIONS) -> Decision:
    topic = NewTopic(NAME, partitions, 3, None, {"retention.ms": "5"})
    return decide_create(image, CreateTopics((topic,), False, 0, 1, "u"))


@pytest.fixture(scope="module")
def large(empty: tuple[Nodelike, ClusterImage]) -> tuple[Nodelike, ClusterImage]:
    store = empty[0].copy()
    return store, after(store, empty[1], create(empty[1]))


def delete(image: ClusterImage) -> tuple[Uuid, Decision]:
    topic_id = image.topics[NAME].topic_id
    offsets = {str(partition): 1 << 40 for partition in range(100)}
    groups = tuple({"group": f"g{number}", "offsets": offsets} for number in range(1_000))
    ends = tuple((0, 1 << 40) for _ in range(PARTITIONS))
    return topic_id, decide_delete(
        image, DeleteTopics((topic_id,), "u", 5, 100), FencedTopics({topic_id: groups}, {topic_id: ends})
    )


@pytest.mark.checklist("A1")
def test_a_creation_is_finished_or_never_was(empty: tuple[Nodelike, ClusterImage]) -> None:
    store, image = empty[0].copy(), empty[1]
    decision = create(image)
    for number, left, found in crashes(store, decision):
        assert (NAME in found.topics) == (number > 0)
        if number:
            assert len(found.topics[NAME].partitions) == PARTITIONS
            same_as_loaded(left, found)
        assert left.orphans() == set()
    same_as_loaded(store, after(store, image, decision))


def test_partitions_are_added_or_not(empty: tuple[Nodelike, ClusterImage]) -> None:
    store = empty[0].copy()
    image = after(store, empty[1], create(empty[1], 5))
    grow = decide_create_partitions(image, CreatePartitions((NewPartitions(NAME, 4_000, None, None),), False, 0))
    for number, left, found in crashes(store, grow):
        assert len(found.topics[NAME].partitions) == (4_000 if number else 5)
        same_as_loaded(left, found)


@pytest.mark.checklist("A2")
def test_a_deletion_is_decided_by_one_multi(large: tuple[Nodelike, ClusterImage]) -> None:
    store, image = large[0].copy(), large[1]
    topic_id, decision = delete(image)
    last = len(parts_of(decision))
    for number, left, found in crashes(store, decision):
        assert (topic_id in found.names) == (number < last)
        assert (topic_id in found.deletions) == (number == last)
        assert left.orphans() == set()
        if number == last:
            assert len(found.deletions[topic_id].offsets) == 1_000
            assert found.leftovers == {NAME: PARTITIONS}
        else:
            assert not [path for path in left.nodes if path.startswith(znodes.DELETED_TOPICS + "/")]
    image = after(store, image, decision)
    same_as_loaded(store, image)
    # A crash may follow each step of the removal.
    for _ in range(100):
        if not image.leftovers:
            break
        image = after(store, image, decide_remove_leftovers(image, RemoveLeftovers(NAME)))
        same_as_loaded(store, image)
        cleaned(copy := store.copy(), copy.load(2))
    cleaned(store, image)


@pytest.mark.checklist("A2")
def test_the_name_is_free_before_everything_is_removed(large: tuple[Nodelike, ClusterImage]) -> None:
    store, image = large[0].copy(), large[1]
    image = after(store, image, delete(image)[1])
    again = create(image, 7)
    for _, left, found in crashes(store, again):
        assert left.orphans() == set()
        assert NAME in found.topics or NAME in found.leftovers or NAME not in found.damaged
    image = after(store, image, again)
    assert len(image.topics[NAME].partitions) == 7
    same_as_loaded(store, image)
    assert decide_remove_leftovers(image, RemoveLeftovers(NAME)).operations == ()


@pytest.mark.checklist("A2")
def test_a_truncation_is_decided_by_one_multi(large: tuple[Nodelike, ClusterImage]) -> None:
    store, image = large[0].copy(), large[1]
    old = image.topics[NAME]
    decision = decide_truncate(image, TruncateTopics((Truncation(old.topic_id, False),), "u", 5, 100))
    seen = set()
    for _, left, found in crashes(store, decision):
        live = found.topics[NAME]
        seen.add(live.topic_id == old.topic_id)
        assert len({live.topic_id} & found.deletions.keys()) == 0
        assert (old.topic_id in found.deletions) == (live.topic_id != old.topic_id)
        if live.topic_id != old.topic_id:
            assert {one.leader_epoch for one in live.partitions} == {1}
        same_as_loaded(left, found)
    assert seen == {True, False}
    same_as_loaded(store, after(store, image, decision))


def test_it_comes_back(large: tuple[Nodelike, ClusterImage]) -> None:
    store, image = large[0].copy(), large[1]
    topic_id, decision = delete(image)
    image = cleaned(store, after(store, image, decision))
    image = after(store, image, decide_advance(image, AdvanceDeletions(confirmed=((topic_id, (1, 2)),))))
    image = after(store, image, decide_undelete(image, UndeleteTopic(topic_id, None, "u", 7)))
    finish = decide_finish_undelete(image, FinishUndelete(topic_id))
    for number, left, found in crashes(store, finish):
        assert (topic_id in found.names) == (number > 0)
        assert (found.deletions[topic_id].state == "live") == (number > 0)
        same_as_loaded(left, found)
    same_as_loaded(store, after(store, image, finish))


def test_many_small_topics_are_deleted_and_moved_on_in_several_multis(empty: tuple[Nodelike, ClusterImage]) -> None:
    store, image = empty[0].copy(), empty[1]
    topics = tuple(NewTopic(f"{number:05d}" + "n" * 200, 3, 3, None, {}) for number in range(1_000))
    image = after(store, image, decide_create(image, CreateTopics(topics, False, 0, 1, "u")))
    ids = tuple(image.names)
    image = after(store, image, decide_delete(image, DeleteTopics(ids, "u", 5, 100)))
    image = after(store, image, decide_advance(image, AdvanceDeletions(staged=ids)))
    image = after(store, image, decide_advance(image, AdvanceDeletions(removed=ids, tombstones_max=10)))
    assert (len(image.deletions), image.leftovers) == (10, {})
    same_as_loaded(store, image)
