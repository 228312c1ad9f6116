"""Effects of ACL entries on names, ids, incarnations and open connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.broker.security.authorizer import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.security.kit import ROOT, call, codes, create_acls, create_topics, entry, login, port_of, secure_broker
from tests.security.rows import _fetch, _metadata, _produce
from tests.wire.client import WireClient

OP, TOPIC = AclOperation, ResourceType.TOPIC
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with secure_broker(["eve", "ann", "bob"]) as broker:
        yield broker


@pytest.fixture(scope="module")
def root(broker: Broker) -> WireClient:
    return login(broker, ROOT)


def remove(client: WireClient, name: str) -> int:
    """Remove all entries of a topic; return how many there were."""
    one = m.DeleteAclsRequest_DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=OP.ANY,
        permission_type=PermissionType.ANY,
    )
    (result,) = call(client, m.DeleteAclsRequest(filters=[one])).filter_results
    assert result.error_code == 0
    return len(result.matching_acls)


@pytest.mark.checklist(167, 168, 188, "X22", "D19", "H2", "R21")
@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_by_id_the_name_is_never_told(broker: Broker, root: WireClient, version: int) -> None:
    name = f"secret-{version}"
    topic_id = create_topics(root, name)[name]
    eve = login(broker, "eve")
    hidden = "" if version < 12 else None
    for asked, code in ((topic_id, TOPIC_DENIED), (Uuid.random(), ErrorCode.UNKNOWN_TOPIC_ID)):
        (told,) = call(eve, _metadata(None, asked), version).topics
        assert (told.error_code, told.name, told.topic_id, told.partitions) == (code, hidden, asked, [])
    request = m.DeleteTopicsRequest(
        topics=[
            m.DeleteTopicsRequest_DeleteTopicState(topic_id=topic_id),
            m.DeleteTopicsRequest_DeleteTopicState(topic_id=Uuid.random()),
        ],
        timeout_ms=30_000,
    )
    known, unknown = call(eve, request).responses
    assert (known.error_code, known.name, known.topic_id) == (TOPIC_DENIED, None, topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    # A user who may describe the topic learns which topic it may not delete.
    create_acls(root, entry("eve", OP.DESCRIBE, TOPIC, name))
    known, _ = call(eve, request).responses
    assert (known.error_code, known.name) == (TOPIC_DENIED, name)
    assert remove(root, name) == 1
    for make, unknown_code in ((_produce, ErrorCode.UNKNOWN_TOPIC_ID), (_fetch, ErrorCode.UNKNOWN_TOPIC_ID)):
        assert set(codes(call(eve, make("", topic_id)))) - {0} == {TOPIC_DENIED}
        assert set(codes(call(eve, make("", Uuid.random())))) - {0} == {unknown_code}


@pytest.mark.checklist("H2", "H3")
def test_a_guessed_name_beside_an_id_proves_nothing(broker: Broker, root: WireClient) -> None:
    topic_id = create_topics(root, "guess-me")["guess-me"]
    eve = login(broker, "eve")
    for guess in ("guess-me", "wrong-guess"):
        request = m.DeleteTopicsRequest(
            topics=[
                m.DeleteTopicsRequest_DeleteTopicState(name=guess),
                m.DeleteTopicsRequest_DeleteTopicState(topic_id=topic_id),
            ],
            timeout_ms=30_000,
        )
        told = [(one.error_code, one.name, one.topic_id) for one in call(eve, request).responses]
        assert told == [(TOPIC_DENIED, guess, Uuid.ZERO), (TOPIC_DENIED, None, topic_id)]


@pytest.mark.checklist("H3", "X22", "D19")
def test_by_name_existing_and_absent_topics_are_answered_alike(broker: Broker, root: WireClient) -> None:
    create_topics(root, "there")
    eve = login(broker, "eve")
    for version in range(14):
        create = version >= 4
        answers = [
            call(eve, _metadata(name, Uuid.ZERO, create=create), version).topics for name in ("there", "nowhere")
        ]
        for (topic,) in answers:
            assert (topic.error_code, topic.topic_id, topic.partitions) == (TOPIC_DENIED, Uuid.ZERO, [])
            topic.name = "x"
        assert answers[0] == answers[1]
    request = m.DescribeTopicPartitionsRequest(
        topics=[m.DescribeTopicPartitionsRequest_TopicRequest(name=name) for name in ("nowhere", "there")]
    )
    for topic in call(eve, request).topics:
        assert (topic.error_code, topic.topic_id) == (TOPIC_DENIED, Uuid.ZERO)
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicsRequest_DeleteTopicState(name=name) for name in ("nowhere", "there")], timeout_ms=30_000
    )
    for topic in call(eve, request).responses:
        assert (topic.error_code, topic.topic_id) == (TOPIC_DENIED, Uuid.ZERO)
    assert call(root, _metadata("nowhere", Uuid.ZERO)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.checklist("H4")
def test_nothing_that_a_dead_incarnation_granted_lives_on(broker: Broker, root: WireClient) -> None:
    first = create_topics(root, "again")["again"]
    create_acls(root, entry("ann", OP.READ, TOPIC, "again"))
    ann = login(broker, "ann")
    request = _fetch("", first)
    request.session_epoch = 0
    opened = call(ann, request)
    assert (set(codes(opened)), opened.session_id != 0) == ({0}, True)
    gone = m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest_DeleteTopicState(name="again")], timeout_ms=10_000)
    assert set(codes(call(root, gone))) == {0}
    assert remove(root, "again") == 1
    second = create_topics(root, "again")["again"]
    goes_on = m.FetchRequest(session_id=opened.session_id, session_epoch=1, max_bytes=1000)
    assert set(codes(call(ann, goes_on))) - {0} == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert set(codes(call(ann, _fetch("", second)))) - {0} == {TOPIC_DENIED}
    assert set(codes(call(ann, _fetch("again", Uuid.ZERO), 12))) - {0} == {TOPIC_DENIED}


@pytest.mark.checklist("H5", "H4")
def test_a_removed_entry_ends_open_sessions_and_waits(broker: Broker, root: WireClient) -> None:
    topic_id = create_topics(root, "watched")["watched"]
    create_acls(root, entry("bob", OP.READ, TOPIC, "watched"))
    bob, waiting = login(broker, "bob"), login(broker, "bob")
    request = _fetch("", topic_id)
    request.session_epoch = 0
    session = call(bob, request).session_id
    request = _fetch("", topic_id)
    request.max_wait_ms, request.min_bytes = 20_000, 1
    version = 18
    waiting.send(request, version)
    # The removal is queued: later requests come after it.
    assert remove(root, "watched") == 1
    assert set(codes(call(bob, m.FetchRequest(session_id=session, session_epoch=1, max_bytes=1000)))) - {0} == {
        TOPIC_DENIED
    }
    assert set(codes(call(root, _produce("", topic_id)))) == {0}
    answer = waiting.receive()
    assert set(codes(answer)) - {0} == {TOPIC_DENIED}
    assert all(not part.records for topic in answer.responses for part in topic.partitions)
    # After the entry is created again, it applies as soon as the request is answered.
    create_acls(root, entry("bob", OP.READ, TOPIC, "watched"))
    assert set(codes(call(bob, _fetch("", topic_id)))) == {0}


@pytest.mark.checklist("H1", "H6")
def test_writers_may_write_idempotently_and_others_may_not(broker: Broker, root: WireClient) -> None:
    eve = login(broker, "eve")
    request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert call(eve, request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    create_acls(root, entry("eve", OP.WRITE, TOPIC, "one topic"))
    assert call(eve, request).error_code == 0
    create_acls(root, entry("eve", OP.WRITE, TOPIC, "*", allow=False))
    assert call(eve, request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert remove(root, "one topic") + remove(root, "*") == 2


@pytest.mark.checklist("H1")
def test_operations_that_are_told(broker: Broker, root: WireClient) -> None:
    create_topics(root, "told")
    create_acls(root, entry("eve", OP.READ, TOPIC, "told"), entry("eve", OP.DELETE, ResourceType.GROUP, "told"))
    eve = login(broker, "eve")
    request = _metadata("told", Uuid.ZERO)
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = True
    reads = 1 << OP.READ | 1 << OP.DESCRIBE
    told = call(eve, request, 10)
    assert (told.topics[0].topic_authorized_operations, told.cluster_authorized_operations) == (reads, 0)
    request.allow_auto_topic_creation = True
    request.topics.append(m.MetadataRequest_MetadataRequestTopic(name="absent"))
    create_acls(root, entry("eve", OP.DESCRIBE, TOPIC, "absent"))
    # One of the names may have to be created: Python answers, with the same result.
    told = call(eve, request, 10)
    by_name = {topic.name: topic for topic in told.topics}
    assert by_name["told"].topic_authorized_operations == reads
    assert by_name["absent"].error_code == TOPIC_DENIED, "it may be described, not created"
    call(root, m.FindCoordinatorRequest(coordinator_keys=["told"]))
    groups = call(eve, m.DescribeGroupsRequest(groups=["told"], include_authorized_operations=True)).groups
    assert groups[0].authorized_operations == 1 << OP.DELETE | 1 << OP.DESCRIBE
    told = call(login(broker, ROOT), m.DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert told.cluster_authorized_operations == sum(1 << one for one in (5, 7, 8, 9, 10, 11, 12))
    assert remove(root, "told") + remove(root, "absent") == 2


@pytest.mark.checklist("H1", 58, 154, 156, 168)
def test_created_topics_are_described_to_those_who_may_look(broker: Broker, root: WireClient) -> None:
    create_acls(root, entry("eve", OP.CREATE, TOPIC, "made-", prefixed=True))
    eve = login(broker, "eve")
    topics = [
        m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("made-1", "not-made")
    ]
    made, refused = sorted(call(eve, m.CreateTopicsRequest(topics=topics)).topics, key=lambda topic: topic.name)
    assert (made.error_code, made.topic_config_error_code, made.num_partitions, made.configs) == (
        0,
        TOPIC_DENIED,
        -1,
        [],
    )
    assert made.topic_id != Uuid.ZERO, "an id is no secret"
    assert (refused.error_code, refused.topic_id) == (TOPIC_DENIED, Uuid.ZERO)
    assert remove(root, "made-") == 1


@pytest.mark.checklist("H1")
def test_what_entries_may_say(broker: Broker, root: WireClient) -> None:
    good = entry("x", OP.READ, TOPIC, "t")

    def refused(**changes: object) -> str:
        one = m.CreateAclsRequest_AclCreation(**{**{f: getattr(good, f) for f in good.__struct_fields__}, **changes})  # type: ignore[arg-type]  # wrong on purpose
        (result,) = call(root, m.CreateAclsRequest(creations=[one])).results
        assert result.error_code == ErrorCode.INVALID_REQUEST
        return str(result.error_message)

    assert "kafka-cluster" in refused(resource_type=ResourceType.CLUSTER, resource_name="other")
    assert "empty" in refused(resource_name="")
    assert "no colon" in refused(principal="alice")
    for field, values in {
        "resource_type": (0, 1, 99),
        "resource_pattern_type": (0, 1, 2, 9),
        "operation": (0, 1, 99),
        "permission_type": (0, 1, 9),
    }.items():
        for value in values:
            assert "Invalid" in refused(**{field: value})
    unknown = m.DescribeAclsRequest(
        resource_type_filter=0, pattern_type_filter=1, operation=1, permission_type=1, resource_name_filter=None
    )
    assert call(root, unknown).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.checklist("H1", "G13")
def test_entries_and_users_survive_a_restart(tmp_path: Path) -> None:
    names = ("plain", "a/b", "100%", ".", "..", "*", "ünï")
    with secure_broker(["ann"], {"log.dirs": str(tmp_path / "data")}) as broker:
        root = login(broker, ROOT)
        create_acls(root, *(entry("ann", OP.READ, ResourceType.GROUP, name) for name in names))
        create_acls(root, *(entry("ann", OP.READ, ResourceType.GROUP, name, prefixed=True) for name in names))
        upsertions = [
            m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion(
                name=name, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
            )
            for name in names
        ]
        assert set(codes(call(root, m.AlterUserScramCredentialsRequest(upsertions=upsertions)))) == {0}
        everything = m.DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        before = sorted(map(repr, call(root, everything).resources))
        assert len(before) == 2 * len(names)
    with secure_broker(["ann"], {"log.dirs": str(tmp_path / "data")}) as broker:
        root = login(broker, ROOT)
        assert sorted(map(repr, call(root, everything).resources)) == before
        users = call(root, m.DescribeUserScramCredentialsRequest(users=None)).results
        assert sorted(user.user for user in users) == sorted(names)
        answer = call(login(broker, "ann"), m.HeartbeatRequest(group_id="x", member_id="m"))
        # It applies again: the group has no coordinator yet, but the request is not refused.
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.checklist("G13")
def test_what_credentials_may_be(root: WireClient) -> None:
    upsertion = m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion
    deletion = m.AlterUserScramCredentialsRequest_ScramCredentialDeletion

    def altered(*ups: object, deletions: tuple[object, ...] = ()) -> list[tuple[str, int]]:
        request = m.AlterUserScramCredentialsRequest(upsertions=list(ups), deletions=list(deletions))  # type: ignore[arg-type]  # rows of messages
        return [(one.user, one.error_code) for one in call(root, request).results]

    def up(
        name: str = "u", mechanism: int = 1, iterations: int = 4096, salt: bytes = b"s", salted: bytes = b"p"
    ) -> object:
        return upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted)

    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert altered(up("")) == [("", unacceptable)]
    assert altered(up(iterations=4095)) == altered(up(iterations=16385)) == [("u", unacceptable)]
    assert altered(up(iterations=(1 << 31) - 1)) == [("u", unacceptable)]
    assert altered(up(salt=b"")) == altered(up(salted=b"")) == [("u", unacceptable)]
    assert altered(up(mechanism=0)) == altered(up(mechanism=9)) == [("u", ErrorCode.UNSUPPORTED_SASL_MECHANISM)]
    assert altered(up(), up()) == [("u", ErrorCode.DUPLICATE_RESOURCE)]
    assert altered(deletions=(deletion(name="u", mechanism=1),)) == [("u", ErrorCode.RESOURCE_NOT_FOUND)]
    # Each user's change succeeds or fails as a whole; other users are not affected.
    assert altered(up("v"), up("w"), up("w", 2, 1)) == [("v", 0), ("w", unacceptable)]
    names = [m.DescribeUserScramCredentialsRequest_UserName(name=name) for name in ("v", "w", "x", "x")]
    found = call(root, m.DescribeUserScramCredentialsRequest(users=names)).results
    assert {one.user: one.error_code for one in found} == {
        "v": 0,
        "w": ErrorCode.RESOURCE_NOT_FOUND,
        "x": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert altered(deletions=(deletion(name="v", mechanism=1),)) == [("v", 0)]


def test_without_authorizer_there_are_no_entries() -> None:
    with Broker() as broker:
        client = WireClient(port_of(broker, "PLAINTEXT"))
        everything = m.DescribeAclsRequest(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )
        assert call(client, everything).error_code == ErrorCode.SECURITY_DISABLED
        answer = call(client, m.CreateAclsRequest(creations=[entry("x", OP.READ, TOPIC, "t")]))
        assert answer.results[0].error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.checklist("H5")
def test_entries_change_while_others_write(broker: Broker, root: WireClient) -> None:
    """No write is refused while an entry allows it, whatever other entries change."""
    topic_id = create_topics(root, "busy")["busy"]
    create_acls(root, entry("ann", OP.WRITE, TOPIC, "busy"))
    ann, refused, stop = login(broker, "ann"), [], threading.Event()

    def write() -> None:
        while not stop.is_set():
            refused.extend(set(codes(call(ann, _produce("", topic_id)))) - {0})

    writer = threading.Thread(target=write)
    writer.start()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        create_acls(root, entry("bob", OP.READ, TOPIC, "busy-too"))
        assert remove(root, "busy-too") == 1
    stop.set()
    writer.join()
    assert refused == []
    assert remove(root, "busy") == 1
