"""Quotas in the nodes of Kafka on ZooKeeper: they are read back unchanged, and large changes are split where that is
allowed."""

from __future__ import annotations

from pybroker.broker.cluster.events import AlterClientQuotas, AlterUsers, QuotaChange, UserChange
from pybroker.broker.controller.config_decisions import decide_alter_client_quotas
from pybroker.broker.controller.decision import rule_of
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.metadata_store import Create, Node, Operation, Set
from pybroker.broker.metadata.quota_nodes import Entity, entity_of, path_of, stored_quotas

START = ClusterImage.initial(1)
ALICE: Entity = (("user", "alice"),)
BOTH: Entity = (("client-id", "a/b"), ("user", "alice"))
PATHS: dict[str, Entity] = {
    "/config/users/alice": ALICE,
    "/config/users/%3Cdefault%3E": (("user", "<default>"),),
    "/config/users/<default>": (("user", None),),
    "/config/users/alice/clients/a%2Fb": BOTH,
    "/config/users/<default>/clients/<default>": (("client-id", None), ("user", None)),
    "/config/clients/%2A%7E%20": (("client-id", "*~ "),),
    "/config/clients/<default>": (("client-id", None),),
    "/config/ips/10.0.0.1": (("ip", "10.0.0.1"),),
    "/config/ips/<default>": (("ip", None),),
}


def change(entity: Entity, **values: str | None) -> QuotaChange:
    return QuotaChange(entity, values)


def written(operations: tuple[Operation, ...], before: dict[str, Node] | None = None) -> dict[str, Node]:
    """Return the resulting nodes of the store; raise for writes that do not fit."""
    nodes = dict(before or {})
    for one in operations:
        if isinstance(one, Create):
            assert one.path not in nodes
            parent = one.path.rpartition("/")[0]
            assert parent in nodes or parent.count("/") == 2
            nodes[one.path] = Node(one.data, 0, 1, 1, 100, 0)
        else:
            assert isinstance(one, Set)
            assert one.version == nodes[one.path].version
            nodes[one.path] = Node(one.data, one.version + 1, 1, 1, 100, 0)
    return nodes


def test_paths_there_and_back() -> None:
    assert {path: entity_of(path) for path in PATHS} == PATHS
    assert [path_of(entity) for entity in PATHS.values()] == list(PATHS)
    assert entity_of("/config/users/alice/clients") is None


def test_what_is_loaded_is_what_was_decided() -> None:
    event = AlterClientQuotas(tuple(change(entity, producer_byte_rate="1") for entity in PATHS.values()))
    first = decide_alter_client_quotas(START, event)
    assert first.reply == [None] * len(PATHS)
    image, nodes = START.apply(first.delta), written(first.operations)
    assert dict(stored_quotas(image)) == {entity: {"producer_byte_rate": "1"} for entity in PATHS.values()}
    loaded = load_image(1, Nodes({}, nodes, {})).image
    assert (loaded.users, loaded.quotas) == (image.users, image.quotas)
    again = decide_alter_client_quotas(image, event)
    assert (again.operations, again.delta.empty) == ((), True), "nothing is new"
    taken = AlterClientQuotas(tuple(change(entity, producer_byte_rate=None) for entity in PATHS.values()))
    second = decide_alter_client_quotas(image, taken)
    image, nodes = image.apply(second.delta), written(second.operations, nodes)
    assert dict(stored_quotas(image)) == {}
    loaded = load_image(1, Nodes({}, nodes, {})).image
    assert (loaded.users, loaded.quotas) == (image.users, image.quotas)


def test_credentials_and_quotas_of_a_user_share_a_node() -> None:
    users = AlterUsers((UserChange("alice", {"SCRAM-SHA-256": "secret"}),))
    image = START.apply(rule_of(users).decide(START, users).delta)
    decision = decide_alter_client_quotas(image, AlterClientQuotas((change(ALICE, producer_byte_rate="1"),)))
    image = image.apply(decision.delta)
    assert image.users["alice"].config == {"SCRAM-SHA-256": "secret", "producer_byte_rate": "1"}
    assert dict(stored_quotas(image)) == {ALICE: {"producer_byte_rate": "1"}}
    gone = AlterUsers((UserChange("alice", {"SCRAM-SHA-256": None}),))
    image = image.apply(rule_of(gone).decide(image, gone).delta)
    assert image.users["alice"].config == {"producer_byte_rate": "1"}


def test_one_entity_several_times_in_a_request() -> None:
    event = AlterClientQuotas((change(BOTH, a="1", b="1"), change(ALICE, a="1"), change(BOTH, a=None, c="2")))
    decision = decide_alter_client_quotas(START, event)
    image = START.apply(decision.delta)
    assert image.quotas[path_of(BOTH)].config == {"b": "1", "c": "2"}
    assert image.users["alice"].config == {"a": "1"}
    written(decision.operations)


def test_many_may_be_written_in_parts() -> None:
    event = AlterClientQuotas(tuple(change((("client-id", str(number)),), a="1") for number in range(3)))
    assert decide_alter_client_quotas(START, event).seams == (0, 1, 2)
