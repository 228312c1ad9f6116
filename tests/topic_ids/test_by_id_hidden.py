"""A user without permissions learns from a topic id only that the topic exists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.broker.security.authorizer import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.brokers import PybrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.kit import batch, create, delete, fetch, metadata, produce, unique
from tests.wire.client import WireClient

DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[WireClient, WireClient]]:
    """An administrator, and a user without permissions."""
    broker, closed_port = PybrokerProcess(tmp_path), free_port()
    broker.settings |= {
        "listeners": f"PLAINTEXT://{broker.bootstrap},SASL_PLAINTEXT://127.0.0.1:{closed_port}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret";'
        ),
    }
    broker.start()
    try:
        with WireClient(closed_port) as admin, WireClient(broker.port) as nobody:
            assert admin.call(m.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            answer = admin.call(m.SaslAuthenticateRequest(auth_bytes=b"\0admin\0secret"), 2)
            assert answer.error_code == 0, answer.error_message
            yield admin, nobody
    finally:
        broker.kill()


def allow(admin: WireClient, topic: str, operation: AclOperation) -> None:
    creation = m.CreateAclsRequest_AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )
    assert [row.error_code for row in admin.call(m.CreateAclsRequest(creations=[creation]), 3).results] == [0]


@pytest.mark.checklist(163, 167, 168, 188, 315, "X22", "D19", "R21")
def test_an_id_tells_no_name_and_is_looked_up_before_rights(guarded: tuple[WireClient, WireClient]) -> None:
    admin, nobody = guarded
    name = unique("secret")
    topic_id, unknown = create(admin, name).topic_id, Uuid.random()
    for version in range(10, 14):
        hidden, absent = metadata(nobody, version, topic_id, unknown).topics
        nameless = None if version >= 12 else ""
        assert (hidden.error_code, hidden.name, hidden.topic_id) == (DENIED, nameless, topic_id)
        assert (absent.error_code, absent.name, absent.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, nameless, unknown)
        assert hidden.partitions == []
    # For requests by name the rule is the reverse: no id, and no difference between existing and missing topics.
    by_name, missing = metadata(nobody, 12, name, "no-such-topic").topics
    assert (by_name.error_code, by_name.name, by_name.topic_id) == (DENIED, name, Uuid.ZERO)
    assert (missing.error_code, missing.topic_id) == (DENIED, Uuid.ZERO)
    hidden, absent, by_name = delete(nobody, topic_id, unknown, name + "-absent")
    assert (hidden.error_code, hidden.name, hidden.topic_id) == (DENIED, None, topic_id)
    assert (absent.error_code, absent.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, unknown)
    assert by_name.error_code == DENIED
    assert nobody.call(m.ListTopicsRequest(list_internal=True), 1).topic_listing == []
    assert nobody.call(m.ListTopicsRequest(list_internal=True), 0).topic_listing == []
    assert nobody.call(m.MetadataRequest(topics=None), 12).topics == []
    # A user who may describe it gets the name with the refusal; a user who may not delete it does not delete it.
    allow(admin, name, AclOperation.DESCRIBE)
    (shown,) = metadata(nobody, 12, topic_id).topics
    assert (shown.error_code, shown.name) == (0, name)
    (refused,) = delete(nobody, topic_id)
    assert (refused.error_code, refused.name, refused.topic_id) == (DENIED, name, topic_id)
    assert [row.name for row in nobody.call(m.ListTopicsRequest(), 1).topic_listing] == [name]
    assert metadata(admin, 12, topic_id).topics[0].error_code == 0


@pytest.mark.checklist(59, "X22", 188)
def test_the_name_of_a_dead_id_is_told_to_those_who_may_know_it(guarded: tuple[WireClient, WireClient]) -> None:
    """The message contains the name; the code is the same for all users, and for an id that never existed."""
    admin, nobody = guarded
    name = unique("secret")
    dead, never = create(admin, name).topic_id, Uuid.random()
    assert delete(admin, dead)[0].error_code == 0

    def told(client: WireClient, topic_id: Uuid) -> list[str]:
        (deletion,) = delete(client, topic_id)
        which = m.TruncateTopicsRequest_TruncatableTopic(topic_id=topic_id)
        truncation = client.call(m.TruncateTopicsRequest(topics=[which], timeout_ms=30_000), 0).topics[0]
        cluster_id = client.call(m.DescribeClusterRequest(), 0).cluster_id
        begin = m.IngestBeginRequest(cluster_id=cluster_id, topic_id=topic_id, ingest_id="i", batch_id=-1, ttl_ms=-1)
        ingest = client.call(begin, 0)
        for row in (deletion, truncation, ingest):
            assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID, row
        return [deletion.error_message, truncation.error_message, ingest.error_message]

    for message in told(admin, dead):
        assert f"Topic id {dead} was '{name}': it was deleted by User:admin at 20" in message
    assert told(nobody, dead) == [f"There is no topic with id {dead}."] * 3
    assert told(nobody, never) == told(admin, never) == [f"There is no topic with id {never}."] * 3
    allow(admin, name, AclOperation.DESCRIBE)
    assert told(nobody, dead) == told(admin, dead)


@pytest.mark.checklist("U5", "X22")
def test_history_tells_no_former_name_to_those_who_may_not_know_it(guarded: tuple[WireClient, WireClient]) -> None:
    admin, nobody = guarded
    secret, shown = unique("secret"), unique("shown")
    topic_id = create(admin, secret).topic_id
    assert delete(admin, topic_id)[0].error_code == 0
    back = m.UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id, new_name=shown)
    assert admin.call(m.UndeleteTopicsRequest(topics=[back], timeout_ms=30_000), 0).topics[0].error_code == 0
    allow(admin, shown, AclOperation.DESCRIBE)

    def names(client: WireClient, which: m.DescribeTopicHistoryRequest_HistoryTopic) -> list[str]:
        (found,) = client.call(m.DescribeTopicHistoryRequest(topics=[which]), 0).topics
        assert found.error_code == 0, found
        (incarnation,) = found.incarnations
        assert [event.what for event in incarnation.events] == ["create", "delete", "undelete"]
        return [event.name for event in incarnation.events]

    by_id = m.DescribeTopicHistoryRequest_HistoryTopic(topic_id=topic_id)
    by_name = m.DescribeTopicHistoryRequest_HistoryTopic(name=shown)
    for which in (by_id, by_name):
        assert names(admin, which) == [secret, secret, shown]
        assert names(nobody, which) == ["", "", shown]


@pytest.mark.checklist(315)
def test_pages_of_a_listing_are_filled_past_what_is_hidden(guarded: tuple[WireClient, WireClient]) -> None:
    """Neither the size of a page nor its cursor reveals topics that the user may not describe."""
    admin, nobody = guarded
    names = [f"t{number}" for number in range(6)]
    for name in names:
        create(admin, name)
    for name in names[1::2]:
        allow(admin, name, AclOperation.DESCRIBE)
    whole = nobody.call(m.ListTopicsRequest(list_internal=True), 0)
    assert [row.name for row in whole.topic_listing] == ["t1", "t3", "t5"]
    page = nobody.call(m.ListTopicsRequest(limit=2), 1)
    assert ([row.name for row in page.topic_listing], page.next) == (["t1", "t3"], "t3")
    page = nobody.call(m.ListTopicsRequest(limit=1, after="t4"), 1)
    assert ([row.name for row in page.topic_listing], page.next) == (["t5"], None)


@pytest.mark.checklist(167, 168)
def test_records_by_id_need_the_rights_on_the_name_behind_it(guarded: tuple[WireClient, WireClient]) -> None:
    admin, nobody = guarded
    name = unique("secret")
    topic_id, unknown = create(admin, name).topic_id, Uuid.random()
    assert produce(nobody, topic_id, batch(b"v")).error_code == DENIED
    assert produce(nobody, unknown, batch(b"v")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(nobody, topic_id).error_code == DENIED
    assert fetch(nobody, unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    allow(admin, name, AclOperation.WRITE)
    assert produce(nobody, topic_id, batch(b"v")).error_code == 0
    assert fetch(nobody, topic_id).error_code == DENIED
    allow(admin, name, AclOperation.READ)
    assert fetch(nobody, topic_id).high_watermark == 1
