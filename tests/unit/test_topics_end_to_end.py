"""Topics from request to store, image, messages, native orders and back, with a fake native core."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.broker.replicas import broker_registration
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequest_CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsRequest_CreatableReplicaAssignment,
    CreateTopicsRequest_CreatableTopic,
    CreateTopicsRequest_CreatableTopicConfig,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsRequest_DeleteRecordsPartition,
    DeleteRecordsRequest_DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequest_DeleteTopicState,
    DeleteTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequest_Cursor,
    MetadataRequest,
    MetadataRequest_MetadataRequestTopic,
    MetadataResponse,
)
from tests.unit.control_plane import ControlPlane, until


def topic(name: str, partitions: int = -1, factor: int = -1, **configs: str) -> CreateTopicsRequest_CreatableTopic:
    return CreateTopicsRequest_CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreateTopicsRequest_CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


async def create(
    plane: ControlPlane,
    *topics: CreateTopicsRequest_CreatableTopic,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> CreateTopicsResponse:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    answer: CreateTopicsResponse = await plane.call(19, request, 7)
    return answer


async def delete(plane: ControlPlane, *which: str | Uuid) -> DeleteTopicsResponse:
    states = [
        DeleteTopicsRequest_DeleteTopicState(name=one)
        if isinstance(one, str)
        else DeleteTopicsRequest_DeleteTopicState(name=None, topic_id=one)
        for one in which
    ]
    answer: DeleteTopicsResponse = await plane.call(20, DeleteTopicsRequest(topics=states, timeout_ms=30_000), 6)
    return answer


async def metadata(plane: ControlPlane, *names: str, auto: bool = True, version: int = 12) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequest_MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=auto
    )
    answer: MetadataResponse = await plane.call(3, request, version)
    return answer


@pytest.mark.checklist("R12")
async def test_create_is_durable_visible_and_applied(control_plane: ControlPlane) -> None:
    plane = control_plane
    await plane.start()
    answer = (await create(plane, topic("a", 3, 1, retention_ms="1000"))).topics[0]
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert answer.topic_id != Uuid.ZERO
    settings = {config.name: config for config in answer.configs or []}
    assert (settings["retention.ms"].value, settings["retention.ms"].config_source) == ("1000", 1)
    assert settings["cleanup.policy"].config_source == 5
    assert {(order.topic, order.partition) for order in plane.native.applies[-1]} == {("a", 0), ("a", 1), ("a", 2)}
    assert all(order.is_new and order.config["retention.ms"] == "1000" for order in plane.native.applies[-1])
    shown = plane.native.deltas[-1].topics_changed[0]
    assert (shown.topic_id, shown.name) == (answer.topic_id, "a")
    await plane.stop()
    await plane.start()
    shown = (await metadata(plane, "a")).topics[0]
    assert (shown.topic_id, len(shown.partitions)) == (answer.topic_id, 3)
    assert [partition.leader_epoch for partition in shown.partitions] == [0, 0, 0]
    full = plane.native.applies[0]
    assert len(full) == 3
    assert all(not order.is_new and order.config["retention.ms"] == "1000" for order in full)


@pytest.mark.parametrize(
    ("case", "epoch"),
    [
        (("os", "new", False), 1),
        (("os", "", False), 1),
        (("os", "same", False), 0),
        (("os", "new", True), 0),
        (("commit", "new", False), 0),
    ],
)
async def test_leader_epochs_move_on_only_where_something_visible_may_be_lost(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, bool], epoch: int
) -> None:
    plane = control_plane
    flush_mode, boots, clean = case
    plane.settings["log.flush.mode"] = flush_mode
    monkeypatch.setattr(broker_registration, "boot_id", lambda: "" if boots == "" else "same")
    await plane.start()
    await create(plane, topic("a", 2, 1))
    await (plane.stop() if clean else plane.kill())
    monkeypatch.setattr(broker_registration, "boot_id", lambda: boots)
    await plane.start()
    assert [order.leader_epoch for order in plane.native.applies[0]] == [epoch, epoch]
    await plane.stop()
    await plane.start()
    assert [order.leader_epoch for order in plane.native.applies[0]] == [epoch, epoch]


@pytest.mark.checklist(2, 3, 110, 112, 113, 190, 4)
async def test_delete_frees_the_name_at_once_and_epochs_go_on(control_plane: ControlPlane) -> None:
    plane = control_plane
    broker = await plane.start()
    first = (await create(plane, topic("a", 2, 1))).topics[0].topic_id
    deleted = (await delete(plane, "a")).responses[0]
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "a", first)
    second = (await create(plane, topic("a", 2, 1))).topics[0].topic_id
    assert second != first
    assert [order.leader_epoch for order in plane.native.applies[-1]] == [1, 1]
    assert {staged.topic_id for staged in plane.native.staged.values()} == {first}
    again = (await delete(plane, first)).responses[0]
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await metadata(plane, "a", auto=False)).topics[0].topic_id == second
    assert broker.services is not None
    record = broker.services.view.image.deletions[first]
    assert record.remove_after_ms == record.deleted_ms + 14_400_000


@pytest.mark.checklist(80, 81, 82, 144)
async def test_data_is_removed_after_the_delay_and_never_before(control_plane: ControlPlane) -> None:
    plane = control_plane
    plane.settings["delete.topic.delay.ms"] = "3600000"
    broker = await plane.start()
    topic_id = (await create(plane, topic("a", 1, 1))).topics[0].topic_id
    await delete(plane, "a")
    # The delay begins when the data has been moved, which DeleteTopics does not wait for.
    services = broker.services
    assert services is not None
    await until(lambda: services.view.image.deletions[topic_id].state == "staged")
    await plane.stop()
    plane.clock.advance(3_599_000)
    broker = await plane.start()
    plane.clock.jump(-7_200_000)
    assert plane.native.purged == []
    plane.clock.advance(999)
    staging = plane.parts.staging
    staging._wake.set()
    await asyncio.sleep(0.05)
    assert plane.native.purged == []
    plane.clock.advance(1)
    staging._wake.set()
    await until(lambda: len(plane.native.purged) == 1)
    services = broker.services
    assert services is not None
    for _ in range(6000):
        if not await plane.store.children(f"/admin/staged/{services.broker_id}"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the deadline is stored although its data is gone")


@pytest.mark.checklist(121)
async def test_a_deletion_ends_as_a_tombstone(control_plane: ControlPlane) -> None:
    control_plane.settings["delete.topic.delay.ms"] = "0"
    broker = await control_plane.start()
    services = broker.services
    assert services is not None
    topic_id = (await create(control_plane, topic("a", 2, 1))).topics[0].topic_id
    await delete(control_plane, topic_id)
    await until(lambda: services.view.image.deletions[topic_id].state == "removed")
    assert len(control_plane.native.purged) == 2
    # No work is left: the controller's list is empty, and the tombstone is only history.
    left = control_plane.controller._deletions
    await until(lambda: not any((left._unconfirmed, left._staged, left._unchecked, left._newly_staged)))
    await control_plane.stop()
    again = await control_plane.start()
    assert again.services is not None
    assert again.services.view.image.deletions[topic_id].state == "removed"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("a..", 1, 1), 0),
        (topic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x/y", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("ü", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a\x00", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata", 1, 1), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (topic("n" * 249, 1, 1), 0),
        (topic("n" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("there", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("with_dots", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("b", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (topic("b", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (topic("b", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("b", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("b", 1, 1, retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (topic("b", 1, 1, no_such="x"), ErrorCode.INVALID_CONFIG),
        (topic("b", 60_000, 1), ErrorCode.POLICY_VIOLATION),
        (topic("b", 2_147_483_647, 1), ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_what_is_refused(
    control_plane: ControlPlane, asked: CreateTopicsRequest_CreatableTopic, code: int
) -> None:
    await control_plane.start()
    await create(control_plane, topic("there", 1, 1), topic("with.dots", 1, 1))
    answer = (await create(control_plane, asked)).topics[0]
    assert answer.error_code == code
    assert (answer.topic_id == Uuid.ZERO) == bool(code)
    assert bool(answer.error_message) == bool(code)


async def test_manual_assignments(control_plane: ControlPlane) -> None:
    broker = await control_plane.start()
    assert broker.services is not None
    me = broker.services.broker_id

    def assigned(*partitions: tuple[int, list[int]], count: int = -1) -> CreateTopicsRequest_CreatableTopic:
        made = topic("m", count)
        made.assignments = [
            CreateTopicsRequest_CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in partitions
        ]
        return made

    refused = [
        (assigned((0, [me]), count=1), ErrorCode.INVALID_REQUEST),
        (assigned((1, [me])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, [me, me])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, [77])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((0, [me]), (0, [me])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ]
    for asked, code in refused:
        assert (await create(control_plane, asked)).topics[0].error_code == code
    answer = (await create(control_plane, assigned((1, [me]), (0, [me])))).topics[0]
    assert (answer.error_code, answer.num_partitions) == (0, 2)


async def test_duplicates_validate_only_and_timeout(control_plane: ControlPlane) -> None:
    await control_plane.start()
    answers = (await create(control_plane, topic("a", 1), topic("a", 2), topic("b", 1))).topics
    assert [(one.name, one.error_code) for one in answers] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
    tried = (await create(control_plane, topic("c", 4, 1), validate_only=True)).topics[0]
    assert (tried.error_code, tried.num_partitions, tried.topic_id) == (0, 4, Uuid.ZERO)
    late = (await create(control_plane, topic("d", 1, 1), timeout_ms=0)).topics[0]
    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await create(control_plane, topic("d", 1, 1))).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert (await metadata(control_plane, "c", auto=False)).topics[0].error_code == 3


async def test_a_topic_that_no_disk_takes_is_taken_back(control_plane: ControlPlane) -> None:
    await control_plane.start()
    control_plane.native.failing["a", 1] = ErrorCode.KAFKA_STORAGE_ERROR
    answer = (await create(control_plane, topic("a", 2, 1))).topics[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    control_plane.native.failing.clear()
    assert (await create(control_plane, topic("a", 2, 1))).topics[0].error_code == 0


@pytest.mark.checklist(165, 166)
async def test_automatic_creation(control_plane: ControlPlane) -> None:
    await control_plane.start()
    assert (await metadata(control_plane, "auto", auto=False)).topics[0].error_code == 3
    answers = await asyncio.gather(*(metadata(control_plane, "auto", f"other-{n}") for n in range(5)))
    ids = {answer.topics[0].topic_id for answer in answers}
    assert len(ids) == 1
    assert all(topic.error_code == 0 for answer in answers for topic in answer.topics)
    bad = (await metadata(control_plane, "no/good")).topics[0]
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    reserved = (await metadata(control_plane, "__cluster_metadata")).topics[0]
    assert reserved.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    unknown = Uuid.random()
    for version, name in ((10, ""), (12, None)):
        request = MetadataRequest(topics=[MetadataRequest_MetadataRequestTopic(name=None, topic_id=unknown)])
        answer = (await control_plane.call(3, request, version)).topics[0]
        assert (answer.error_code, answer.name, answer.topic_id) == (100, name, unknown)


@pytest.mark.checklist(183, 185, 186, 187, 189)
async def test_delete_refusals(control_plane: ControlPlane) -> None:
    await control_plane.start()
    first = (await create(control_plane, topic("a", 1), topic("b", 1))).topics[0]
    both = DeleteTopicsRequest_DeleteTopicState(name="a", topic_id=first.topic_id)
    neither = DeleteTopicsRequest_DeleteTopicState(name=None)
    request = DeleteTopicsRequest(topics=[both, neither], timeout_ms=1000)
    assert [one.error_code for one in (await control_plane.call(20, request, 6)).responses] == [42, 42]
    aliased = await delete(control_plane, "a", first.topic_id, "b", "b", "none")
    assert [one.error_code for one in aliased.responses] == [42, 42, 42, 3]
    (deleted,) = (await delete(control_plane, first.topic_id)).responses
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "a", first.topic_id)
    gone = await delete(control_plane, first.topic_id, "b")
    assert [one.error_code for one in gone.responses] == [ErrorCode.UNKNOWN_TOPIC_ID, 0]
    await metadata(control_plane, "__consumer_offsets")
    # As in Apache Kafka 4, an internal topic can be deleted like any other.
    assert (await delete(control_plane, "__consumer_offsets")).responses[0].error_code == 0


async def test_deletion_disabled(control_plane: ControlPlane) -> None:
    control_plane.settings["delete.topic.enable"] = "false"
    await control_plane.start()
    await create(control_plane, topic("a", 1))
    assert (await delete(control_plane, "a")).responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    old = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000)
    assert (await control_plane.call(20, old, 2)).responses[0].error_code == ErrorCode.INVALID_REQUEST


async def test_create_partitions(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, topic("a", 2))

    async def grow(name: str, count: int) -> int:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsRequest_CreatePartitionsTopic(name=name, count=count, assignments=None)],
            timeout_ms=30_000,
        )
        code: int = (await control_plane.call(37, request, 3)).results[0].error_code
        return code

    assert await grow("a", 5) == 0
    assert {order.partition for order in control_plane.native.applies[-1]} == {2, 3, 4}
    assert len(control_plane.native.deltas[-1].topics_changed[0].partitions) == 5
    assert await grow("a", 5) == ErrorCode.INVALID_PARTITIONS
    assert await grow("a", 4) == ErrorCode.INVALID_PARTITIONS
    assert await grow("none", 4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await control_plane.stop()
    await control_plane.start()
    assert len((await metadata(control_plane, "a")).topics[0].partitions) == 5


async def test_describe_topic_partitions_pages(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, topic("a", 3), topic("b", 3), topic("c", 3))
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2, cursor=cursor)
        answer = await control_plane.call(75, request)
        seen += [(one.name, p.partition_index) for one in answer.topics for p in one.partitions]
        if answer.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequest_Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )
    assert seen == [(name, partition) for name in "abc" for partition in range(3)]


async def test_describe_topic_partitions_obeys_the_limit_of_the_broker(control_plane: ControlPlane) -> None:
    control_plane.settings["max.request.partition.size.limit"] = "4"
    await control_plane.start()
    await create(control_plane, topic("a", 3), topic("b", 3))
    answer = await control_plane.call(75, DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2_000))
    assert [(one.name, len(one.partitions)) for one in answer.topics] == [("a", 3), ("b", 1)]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("b", 1)


async def test_delete_records_refuses_what_kafka_refuses(control_plane: ControlPlane) -> None:
    broker = await control_plane.start()
    assert broker.services is not None
    await broker.services.topics.ensure_internal("__consumer_offsets")
    await create(control_plane, topic("kept", 1, cleanup_policy="compact"), topic("t", 1))
    wanted = {"absent": 0, "kept": 0, "__consumer_offsets": 0, "t": 1}
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest_DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsRequest_DeleteRecordsPartition(partition_index=index, offset=-1)]
            )
            for name, index in wanted.items()
        ]
    )
    answer = await control_plane.call(21, request)
    assert [one.partitions[0].error_code for one in answer.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_an_automatic_creation_that_fails_lets_nobody_wait(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in the creation once left its names marked as being created: every later request for them hung."""
    broker = await control_plane.start()
    assert broker.services is not None
    topics = broker.services.topics

    async def bug(*_: object, **__: object) -> list[object]:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(topics, "create", bug)
        error = (await topics.auto_create(["t"]))["t"]
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert await topics.auto_create(["t"]) == {"t": None}
