"""Decisions while `inter.broker.protocol.version` is below 2.8, and the decision that raises it."""

from __future__ import annotations

import json

import msgspec
import pytest

from pybroker.broker.cluster.events import (
    AlterConfigs,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    NewPartitions,
    NewTopic,
    UndeletedTopic,
    UndeleteTopic,
)
from pybroker.broker.controller.config_decisions import decide_alter_configs
from pybroker.broker.controller.internal_events import AdvanceDeletions
from pybroker.broker.controller.topic_decisions import decide_create, decide_create_partitions
from pybroker.broker.controller.topic_deletion import decide_advance
from pybroker.broker.controller.undelete import decide_undelete
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.image_loader import LoweredError, Nodes, load_image
from pybroker.broker.metadata.metadata_store import Create, Delete, Operation, Set
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster, created, deleted, nodes

RAISE = ConfigChange("broker", "<default>", {"inter.broker.protocol.version": "3.9"}, topic_ids=True)


def old(*names: str) -> ClusterImage:
    """Return a cluster whose topics show no ids."""
    return created(msgspec.structs.replace(cluster(1), topic_ids=False), *names)


def written(operations: tuple[Operation, ...], path: str) -> dict[str, object]:
    (data,) = [one.data for one in operations if isinstance(one, Create | Set) and one.path == path]
    found: dict[str, object] = json.loads(data)
    return found


@pytest.mark.checklist(45, 206)
def test_a_topic_is_stored_without_its_id_and_read_with_it() -> None:
    image = msgspec.structs.replace(cluster(1), topic_ids=False)
    decision = decide_create(image, CreateTopics((NewTopic("a", 2, 1, None, {}),), False, 1, 100))
    node = written(decision.operations, znodes.topic_path("a"))
    assert node == {"version": 2, "partitions": {"0": [1], "1": [1]}, "adding_replicas": {}, "removing_replicas": {}}
    after = image.apply(decision.delta)
    stored = nodes(decision.operations)
    topics = {path: one for path, one in stored.items() if path.startswith("/brokers")}
    admin = {path: one for path, one in stored.items() if path.startswith("/admin")}
    loaded, repairs, _ = load_image(5, Nodes(topics, {}, admin), topic_ids=False)
    assert (repairs, loaded.topics, loaded.topic_ids) == ((), after.topics, False)
    grown = decide_create_partitions(after, CreatePartitions((NewPartitions("a", 3, None),), False, 1))
    assert written(grown.operations, znodes.topic_path("a"))["version"] == 2
    # Load the same nodes with a version that has ids: the node is rewritten with the id from the record.
    raised, repairs, unfinished = load_image(5, Nodes(topics, {}, admin))
    assert written(repairs, znodes.topic_path("a"))["id"] == str(after.topics["a"].topic_id)
    assert (raised.topics["a"].topic_id, unfinished) == (after.topics["a"].topic_id, {"a"})


@pytest.mark.checklist(206)
def test_a_node_with_an_id_is_not_read_by_a_version_without() -> None:
    decision = decide_create(cluster(1), CreateTopics((NewTopic("a", 1, 1, None, {}),), False, 1, 100))
    stored = nodes(decision.operations)
    topics = {path: one for path, one in stored.items() if path.startswith("/brokers")}
    with pytest.raises(LoweredError, match="topic 'a' has a topic id"):
        load_image(5, Nodes(topics, {}, {}), topic_ids=False)


@pytest.mark.checklist(208, 210, 212)
def test_raising_is_one_change_with_its_setting() -> None:
    image = old("a", "b")
    decision = decide_alter_configs(image, AlterConfigs((ConfigChange("topic", "a", {"k": "v"}), RAISE)))
    for name in ("a", "b"):
        node = written(decision.operations, znodes.topic_path(name))
        assert (node["version"], node["id"]) == (3, str(image.topics[name].topic_id))
    assert written(decision.operations, znodes.broker_config_path("<default>"))["config"] == RAISE.changes
    after = image.apply(decision.delta)
    assert after.topic_ids
    assert after.names == image.names
    assert {name: topic.node_version for name, topic in after.topics.items()} == {"a": 1, "b": 1}
    assert after.topics["a"].config == {"k": "v"}
    again = decide_alter_configs(after, AlterConfigs((RAISE,)))
    assert (again.operations, again.delta.empty) == ((), True), "once"


@pytest.mark.checklist(115, 116, 118, 120)
def test_a_deletion_by_order_gives_the_name_up_when_it_moves_on() -> None:
    image = old("a")
    topic = image.topics["a"]
    image = deleted(image, "a")
    (record,) = image.deletions.values()
    assert (record.by_order, image.topics, dict(image.reserved)) == (True, {}, {"a": topic.topic_id})
    (refused,) = decide_create(image, CreateTopics((NewTopic("a", 1, 1, None, {}),), False, 1, 100)).reply
    assert isinstance(refused, KafkaError)
    assert (refused.code, "marked for deletion" in refused.message) == (ErrorCode.TOPIC_ALREADY_EXISTS, True)
    # The version is raised meanwhile: the deletion is completed in its old form, and cannot be undeleted before.
    image = image.apply(decide_alter_configs(image, AlterConfigs((RAISE,))).delta)
    for name in (None, "b"):
        error = decide_undelete(image, UndeleteTopic(topic.topic_id, name, "User:x", 1)).reply
        assert isinstance(error, KafkaError)
    decision = decide_advance(image, AdvanceDeletions(staged=(topic.topic_id,)))
    gone = [one.path for one in decision.operations if isinstance(one, Delete)]
    assert gone[-2:] == [znodes.topic_path("a"), znodes.old_deletion_path("a")]
    assert len(gone) == 2 * len(topic.partitions) + 3
    image = image.apply(decision.delta)
    assert (image.deletions[topic.topic_id].by_order, dict(image.reserved)) == (False, {})
    back = decide_undelete(image, UndeleteTopic(topic.topic_id, None, "User:x", 1)).reply
    assert back == UndeletedTopic("a", topic.topic_id)
    late = decide_advance(image, AdvanceDeletions(staged=(topic.topic_id,)))
    assert late.operations == (), "the name may be another topic's by now"
