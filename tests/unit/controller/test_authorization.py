"""The controller authorizes clients' changes again when it decides, whatever the receiving broker has found."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from pybroker.broker.cluster import events as e
from pybroker.broker.cluster import quorum_events as q
from pybroker.broker.cluster.events import CreatedTopic, CreateTopics, Event, NewTopic
from pybroker.broker.controller.authorization import RULES, AuthorizedEvent, authorize_event
from pybroker.broker.controller.decision import rule_of
from pybroker.broker.controller.decision_modules import DECISION_MODULES
from pybroker.broker.controller.local_controller_client import Submission
from pybroker.broker.metadata.acl_nodes import CLUSTER_NAME, AclBinding, AclFilter
from pybroker.broker.metadata.deletion_records import FOUND, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.control_plane import ControlPlane
from tests.unit.controller.test_decisions import cluster, created

CALLER = Caller("User:a", "127.0.0.1")
CLUSTER, TOPIC = ResourceType.CLUSTER, ResourceType.TOPIC
MAY_NOT_TOPIC, MAY_NOT_CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
OF_ADMINISTRATORS = {
    q.AddVoter,
    q.DescribeQuorum,
    q.RemoveVoter,
    q.TransferQuorumLeader,
    q.UnregisterController,
}
OF_BROKERS = {
    *(q.ANSWERED_WHEN_DURABLE - OF_ADMINISTRATORS),
    e.AlterIsr,
    e.CatchUp,
    e.CloseDeletions,
    e.DropDeleteOrders,
    e.FinishIngest,
    e.FoundReplicas,
    e.KeepOffsets,
    e.KeepOutcome,
    e.LogEndsTold,
    e.LoseIngest,
    e.OffsetsRestored,
    e.OutcomesWritten,
    e.ReopenIngest,
    e.ReplicasOffline,
    e.ShutDownBroker,
    e.TouchIngests,
}

assert DECISION_MODULES, "the decisions are registered"


class Rights:
    """Permits these operations and no others."""

    def __init__(self, *acls: tuple[AclOperation, ResourceType, str]) -> None:
        self.acls = acls

    def follow(self, before: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        raise AssertionError

    def permits(self, caller: Caller, *right: Any) -> bool:
        assert caller == CALLER
        return right in self.acls


def granted(image: ClusterImage, event: Event[Any], *acls: tuple[AclOperation, ResourceType, str]) -> AuthorizedEvent:
    submission = Submission(event, 2, None, None, asyncio.Future(), 0.0, None, CALLER)
    return authorize_event(image, submission, Rights(*acls))


def topic(name: str) -> NewTopic:
    return NewTopic(name, 1, 1, None, {})


def test_every_event_is_of_clients_with_a_right_or_of_brokers_alone() -> None:
    everything = {kind for kind in Event.__subclasses__() if kind.__module__ in (e.__name__, q.__name__)}
    assert everything == OF_BROKERS | RULES.keys()
    assert not OF_BROKERS & RULES.keys()


async def test_what_brokers_want_no_client_may_have() -> None:
    found = granted(cluster(1), e.CatchUp())
    assert found.refusal is not None
    assert found.refusal.code == MAY_NOT_CLUSTER


async def test_each_event_needs_its_right() -> None:
    image = created(created(cluster(1), "a"), "b")
    a, b = (image.topics[name].topic_id for name in "ab")
    dead = Uuid.random()
    record = DeletionRecord("dead", dead, FOUND, 0, 0, "", 0, {}, {}, 0)
    image = image.apply(ImageDelta(deletions=(record,)))
    alter_cluster = (AclOperation.ALTER, CLUSTER, CLUSTER_NAME)
    for event, needed in [
        (e.CreateAcls(()), [alter_cluster]),
        (e.DeleteAcls(()), [alter_cluster]),
        (e.ElectLeaders(False, None), [alter_cluster]),
        (e.ReassignPartitions(()), [alter_cluster]),
        (e.UnregisterBroker(3), [alter_cluster]),
        (e.UpdateFeatures(()), [alter_cluster]),
        (q.DescribeQuorum(), [(AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)]),
        (q.AddVoter(1, a, (), 0), [alter_cluster]),
        (q.RemoveVoter(1, a), [alter_cluster]),
        (q.UnregisterController(1), [alter_cluster]),
        (q.TransferQuorumLeader(None, 0), [alter_cluster]),
        (e.UndeleteTopic(dead, None, "", 0), [(AclOperation.DELETE, TOPIC, "dead")]),
        (
            e.UndeleteTopic(dead, "new", "", 0),
            [(AclOperation.DELETE, TOPIC, "dead"), (AclOperation.CREATE, TOPIC, "new")],
        ),
        (e.BeginIngest((a, "job", -1), 1, False, {}, 0, 1, 1, 1), [(AclOperation.WRITE, TOPIC, "a")]),
        (e.CommitIngest((a, "job", -1), 1, {}, 0), [(AclOperation.WRITE, TOPIC, "a")]),
        (e.DropIngests(open=(((a, "job", -1), 1),)), [(AclOperation.ALTER, TOPIC, "a")]),
        (e.DropIngests(open=(((a, "job", -1), 1),)), [(AclOperation.WRITE, TOPIC, "a")]),
    ]:
        code = MAY_NOT_CLUSTER if needed[0][1] == CLUSTER else MAY_NOT_TOPIC
        assert granted(image, event, *needed).refusal is None, event
        for one in needed:
            found = granted(image, event, *(other for other in needed if other != one))
            assert found.refusal is not None, event
            assert found.refusal.code == code, event
    for_another = e.CreateToken(DelegationToken("t", "User:u", "User:other", (), 1, 3, 2))
    refusal = granted(image, for_another).refusal
    assert refusal is not None
    assert refusal.code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    right = AclOperation.CREATE_TOKENS, ResourceType.USER, "User:u"
    assert granted(image, for_another, right) == AuthorizedEvent(for_another)
    change = e.ConfigChange("topic", "a", {})
    of_items: list[tuple[Event[Any], tuple[AclOperation, ResourceType, str]]] = [
        (CreateTopics((topic("a"),), True, 0, 0), (AclOperation.CREATE, TOPIC, "a")),
        (CreateTopics((topic("a"),), True, 0, 0), (AclOperation.CREATE, CLUSTER, CLUSTER_NAME)),
        (e.DeleteTopics((a,), "", 0, 0), (AclOperation.DELETE, TOPIC, "a")),
        (e.DeleteTopics((dead,), "", 0, 0), (AclOperation.DELETE, TOPIC, "dead")),
        (e.TruncateTopics((e.Truncation(b, False),), "", 0, 0), (AclOperation.DELETE, TOPIC, "b")),
        (e.CreatePartitions((e.NewPartitions("a", 2, None),), False, 0), (AclOperation.ALTER, TOPIC, "a")),
        (e.AlterConfigs((change,)), (AclOperation.ALTER_CONFIGS, TOPIC, "a")),
        (e.AlterConfigs((e.ConfigChange("broker", "1", {}),)), (AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)),
        (
            e.AlterConfigs((e.ConfigChange("client-metrics", "one", {}),)),
            (AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME),
        ),
        (e.AlterConfigs((e.ConfigChange("group", "g", {}),)), (AclOperation.ALTER_CONFIGS, ResourceType.GROUP, "g")),
        (
            e.AlterClientQuotas((e.QuotaChange((("user", "u"),), {}),)),
            (AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME),
        ),
        (e.AlterUsers((e.UserChange("u", {}),)), alter_cluster),
    ]
    for event, right in of_items:
        assert granted(image, event, right) == AuthorizedEvent(event), event
        found = granted(image, event)
        code = MAY_NOT_CLUSTER if right[1] == CLUSTER and not isinstance(event, CreateTopics) else MAY_NOT_TOPIC
        assert {place: error.code for place, error in found.refused.items()} == {0: code}, event
        # If no item is left, the reply is empty.
        decision = rule_of(found.event).decide(image, found.event)
        assert (decision.operations, decision.reply) == ((), []), event
        assert [error.code for error in found.complete_reply([])] == [code]


async def test_what_does_not_live_is_left_to_the_decision() -> None:
    unknown = Uuid.random()
    for event in (e.DeleteTopics((unknown,), "", 0, 0), e.UndeleteTopic(unknown, None, "", 0)):
        assert granted(cluster(1), event) == AuthorizedEvent(event)


async def test_some_of_it_is_refused_and_the_rest_is_answered_in_its_place() -> None:
    event = CreateTopics((topic("a"), topic("b"), topic("c")), False, 0, 0)
    found = granted(cluster(1), event, (AclOperation.CREATE, TOPIC, "b"))
    assert isinstance(found.event, CreateTopics)
    assert [one.name for one in found.event.topics] == ["b"]
    first, second, third = found.complete_reply(["made"])
    assert (first.code, second, third.code) == (MAY_NOT_TOPIC, "made", MAY_NOT_TOPIC)


async def test_what_was_decided_counts_from_the_next_event_on_and_for_the_next_controller(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pybroker.broker.controller.authorization")
    control_plane.settings |= {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    await control_plane.start()
    right = AclBinding(TOPIC, PatternType.PREFIXED, "a", "User:a", "*", AclOperation.CREATE, PermissionType.ALLOW)
    root = Caller("User:root", "127.0.0.1")

    async def create(*names: str) -> list[int]:
        event = CreateTopics(tuple(topic(name) for name in names), False, 0, 100)
        answer = await control_plane.parts.controller.submit(event, caller=CALLER)
        return [0 if isinstance(one, CreatedTopic) else one.code for one in answer.reply]

    assert await create("a1") == [MAY_NOT_TOPIC]
    assert "principal='User:a' host=127.0.0.1 operation=CREATE resource=TOPIC:'a1' request=CreateTopics" in caplog.text
    with pytest.raises(KafkaError, match="Cluster authorization failed"):
        await control_plane.parts.controller.submit(e.CreateAcls((right,)), caller=CALLER)
    await control_plane.parts.controller.submit(e.CreateAcls((right,)), caller=root)
    assert await create("b1", "a1") == [MAY_NOT_TOPIC, 0]
    await control_plane.stop()
    await control_plane.start()
    assert await create("a2", "b2") == [0, MAY_NOT_TOPIC]
    everything = AclFilter(1, 1, None, None, None, 1, 1)
    # Both events wait in the queue. The event behind the decision is refused before any broker applies the decision.
    removed, refused = await asyncio.gather(
        control_plane.parts.controller.submit(e.DeleteAcls((everything,)), caller=root), create("a3")
    )
    assert removed.reply == [(right,)]
    assert refused == [MAY_NOT_TOPIC]
    assert set(control_plane.parts.services.view.image.topics) == {"a1", "a2"}
