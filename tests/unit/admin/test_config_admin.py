"""A changed setting reaches the metadata store and the native core, and is there after a restart. The native core is
a fake."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pybroker.broker.admin.config_changes import OpType
from pybroker.broker.admin.config_views import ConfigEntry
from pybroker.broker.cluster.events import AlterConfigs, ConfigChange, CreateAcls
from pybroker.broker.metadata.acl_nodes import AclBinding
from pybroker.config import ConfigSource
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequest_AlterableConfig,
    AlterConfigsRequest_AlterConfigsResource,
    CreateTopicsRequest,
    CreateTopicsRequest_CreatableTopic,
    CreateTopicsRequest_CreatableTopicConfig,
    DescribeConfigsRequest,
    DescribeConfigsRequest_DescribeConfigsResource,
    DescribeConfigsResponse_DescribeConfigsResourceResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequest_AlterableConfig,
    IncrementalAlterConfigsRequest_AlterConfigsResource,
)
from tests.unit.control_plane import ControlPlane, counted_turns

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND = OpType.SET, OpType.DELETE, OpType.APPEND
Op = tuple[str, int, str | None]


async def create(plane: ControlPlane, name: str) -> Uuid:
    topic = CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = await plane.call(19, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert answer.topics[0].error_code == 0, answer
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


async def alter(plane: ControlPlane, kind: int, name: str, *ops: Op, validate_only: bool = False) -> int:
    configs = [
        IncrementalAlterConfigsRequest_AlterableConfig(name=key, config_operation=op, value=value)
        for key, op, value in ops
    ]
    resource = IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = await plane.call(44, request, 1)
    (response,) = answer.responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    assert (response.error_message is None) == (response.error_code == 0)
    code: int = response.error_code
    return code


async def replace(plane: ControlPlane, kind: int, name: str, **configs: str) -> int:
    resource = AlterConfigsRequest_AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest_AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    answer = await plane.call(33, AlterConfigsRequest(resources=[resource]), 2)
    code: int = answer.responses[0].error_code
    return code


Shown = DescribeConfigsResponse_DescribeConfigsResourceResult


async def describe(plane: ControlPlane, kind: int, name: str, *keys: str) -> dict[str, Shown]:
    resource = DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    answer = await plane.call(32, request, 4)
    (result,) = answer.results
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message)
    return {one.name: one for one in result.configs}


async def test_a_topic_setting_is_stored_and_in_force(control_plane: ControlPlane) -> None:
    await control_plane.start()
    topic_id = await create(control_plane, "t")
    assert await alter(control_plane, TOPIC, "t", ("retention.ms", SET, "1h")) == 0
    assert control_plane.native.configs[topic_id]["retention.ms"] == "3600000"
    shown = (await describe(control_plane, TOPIC, "t", "retention.ms"))["retention.ms"]
    assert (shown.value, shown.config_source, shown.is_default) == ("3600000", ConfigSource.DYNAMIC_TOPIC_CONFIG, False)
    assert shown.documentation
    await control_plane.stop()
    await control_plane.start()
    assert (await describe(control_plane, TOPIC, "t", "retention.ms"))["retention.ms"].value == "3600000"
    order = next(iter(control_plane.native.hosted.values()))
    assert order.config["retention.ms"] == "3600000"
    assert await alter(control_plane, TOPIC, "t", ("retention.ms", DELETE, None)) == 0
    assert control_plane.native.configs[topic_id]["retention.ms"] == "604800000"


async def test_many_resources_hold_nobody_up_and_repetitions_are_answered_once(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.broker.requests.loop_sharing.SLICE_S", 0)
    await control_plane.start()

    def resource(name: str, *keys: str) -> DescribeConfigsRequest_DescribeConfigsResource:
        return DescribeConfigsRequest_DescribeConfigsResource(
            resource_type=TOPIC, resource_name=name, configuration_keys=list(keys) or None
        )

    names = [f"t{number}" for number in range(100)]
    request = DescribeConfigsRequest(resources=[resource(name) for name in names] * 50)
    request.resources.append(resource("t0", "retention.ms"))
    async with counted_turns() as turns:
        answer = await control_plane.call(32, request, 4)
    assert [result.resource_name for result in answer.results] == [*names, "t0"]
    assert turns() >= len(names)


async def test_validate_only_changes_nothing(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, "t")
    assert await alter(control_plane, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == 0
    assert (
        await alter(control_plane, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True)
        == ErrorCode.INVALID_CONFIG
    )
    assert (await describe(control_plane, TOPIC, "t", "retention.ms"))["retention.ms"].value == "604800000"
    assert control_plane.native.configs == {}


async def test_alter_configs_replaces_everything(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, "t")
    assert await alter(control_plane, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == 0
    assert await replace(control_plane, TOPIC, "t", segment_ms="7") == 0
    shown = await describe(control_plane, TOPIC, "t")
    own = {name for name, one in shown.items() if one.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG}
    assert own == {"segment.ms"}
    assert shown["segment.ms"].value == "7"


async def test_each_resource_stands_for_itself(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, "t")
    assert (
        await alter(control_plane, TOPIC, "absent", ("retention.ms", SET, "5")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert await alter(control_plane, TOPIC, "t", ("retention.ms", SET, "x")) == ErrorCode.INVALID_CONFIG
    assert await alter(control_plane, 64, "metrics", ("a", SET, "b")) == ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as caught:
        await describe(control_plane, TOPIC, "absent")
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as caught:
        await describe(control_plane, TOPIC, "no/topic")
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError) as caught:
        await describe(control_plane, 64, "metrics")
    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_settings_that_the_store_does_not_take_are_refused(control_plane: ControlPlane) -> None:
    """The refused values do not fit into one value of the store. The broker keeps running, with the settings that it
    already has."""
    await control_plane.start()
    await create(control_plane, "t")
    followers, leaders = "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"
    half, too_long = ",".join(["0:1"] * 140_000), ",".join(["0:1"] * 300_000)
    assert await alter(control_plane, TOPIC, "t", (followers, SET, half)) == 0
    for name, value in ((followers, too_long), (leaders, half)):
        for validate_only in (True, False):
            refused = await alter(control_plane, TOPIC, "t", (name, SET, value), validate_only=validate_only)
            assert refused == ErrorCode.INVALID_CONFIG
    configs = [CreateTopicsRequest_CreatableTopicConfig(name=leaders, value=too_long)]
    topics = [
        CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=wanted)
        for name, wanted in (("large", configs), ("small", []))
    ]
    answer = await control_plane.call(19, CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_CONFIG, 0]
    assert "may take 1048576 bytes in the metadata store. These would take 12000" in answer.topics[0].error_message
    broker = control_plane.broker
    assert broker is not None
    assert not broker.failed.done()
    assert await alter(control_plane, TOPIC, "t", (leaders, SET, "0:1")) == 0
    assert (await describe(control_plane, TOPIC, "t", followers))[followers].value == half


async def test_a_value_that_is_too_large_for_the_store_fails_its_request_only(control_plane: ControlPlane) -> None:
    broker = await control_plane.start()
    await create(control_plane, "t")
    controller, view = control_plane.parts.controller, control_plane.parts.services.view
    entries = tuple(AclBinding(2, 3, "t", f"User:{number}", "h" * 30_000, 3, 3) for number in range(40))
    with pytest.raises(KafkaError) as caught:
        await controller.submit(CreateAcls(entries))
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert "at most 1048576" in (caught.value.message or "")
    assert not broker.failed.done()
    await controller.submit(CreateAcls(entries[:1]))
    assert [node.bindings for node in view.image.acls.values()] == [entries[:1]]


async def test_appends_that_meet_lose_nothing(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, "t")
    name = "leader.replication.throttled.replicas"
    codes = await asyncio.gather(*(alter(control_plane, TOPIC, "t", (name, APPEND, f"{n}:1")) for n in range(20)))
    assert set(codes) == {0}
    value = (await describe(control_plane, TOPIC, "t", name))[name].value
    assert value is not None
    assert set(value.split(",")) == {f"{n}:1" for n in range(20)}


async def test_settings_meant_for_one_incarnation_never_reach_the_next(control_plane: ControlPlane) -> None:
    await control_plane.start()
    await create(control_plane, "t")
    event = AlterConfigs((ConfigChange("topic", "t", {"retention.ms": "5"}, topic_id=Uuid.random()),))
    (refused,) = (await control_plane.parts.controller.submit(event)).reply
    assert refused is not None
    assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert control_plane.parts.services.view.image.topics["t"].config == {}


async def test_cluster_defaults_reach_every_topic_and_survive_a_restart(control_plane: ControlPlane) -> None:
    broker = await control_plane.start()
    assert broker.services is not None
    ids = [await create(control_plane, f"t{n}") for n in range(3)]
    assert await alter(control_plane, TOPIC, "t0", ("retention.ms", SET, "5")) == 0
    assert await alter(control_plane, BROKER, "", ("log.retention.ms", SET, "7")) == 0
    assert [control_plane.native.configs[one]["retention.ms"] for one in ids] == ["5", "7", "7"]
    assert broker.services.config["log.retention.ms"] == 7
    assert await alter(control_plane, BROKER, "1", ("log.retention.ms", SET, "8")) == 0
    assert [control_plane.native.configs[one]["retention.ms"] for one in ids] == ["5", "8", "8"]
    await control_plane.stop()
    broker = await control_plane.start()
    assert broker.services is not None
    assert broker.services.config["log.retention.ms"] == 8
    assert {order.topic: order.config["retention.ms"] for order in control_plane.native.hosted.values()} == {
        "t0": "5",
        "t1": "8",
        "t2": "8",
    }
    shown = (await describe(control_plane, TOPIC, "t1", "retention.ms"))["retention.ms"]
    assert [(one.name, one.value, one.source) for one in shown.synonyms] == [
        ("log.retention.ms", "8", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]
    assert list(await describe(control_plane, BROKER, "")) == ["log.retention.ms"]
    assert await alter(control_plane, BROKER, "1", ("log.retention.ms", DELETE, None)) == 0
    assert broker.services.config["log.retention.ms"] == 7


async def test_broker_settings_that_cannot_change(control_plane: ControlPlane) -> None:
    await control_plane.start()
    assert await alter(control_plane, BROKER, "1", ("num.partitions", SET, "2")) == ErrorCode.INVALID_REQUEST
    assert await alter(control_plane, BROKER, "2", ("log.retention.ms", SET, "2")) == ErrorCode.INVALID_REQUEST
    assert await alter(control_plane, BROKER, "1", ("log.retention.mz", SET, "2")) == ErrorCode.INVALID_CONFIG
    contradiction = [("log.cleaner.min.compaction.lag.ms", SET, "9"), ("log.cleaner.max.compaction.lag.ms", SET, "8")]
    assert await alter(control_plane, BROKER, "", *contradiction) == ErrorCode.INVALID_CONFIG
    for name, value in (
        ("log.retention.ms", "0"),
        ("max.connections", "0"),
        ("max.connection.creation.rate", "0"),
        ("max.connections.per.ip", "0"),
        ("log.cleaner.threads", "0"),
        ("log.cleaner.threads", "3"),
        ("log.cleaner.dedupe.buffer.size", "1048576"),
        ("num.io.threads", "3"),
        ("num.replica.fetchers", "99"),
        ("group.consumer.assignment.interval.ms", "2147483647"),
        ("cordoned.log.dirs", "x"),
    ):
        assert await alter(control_plane, BROKER, "1", (name, SET, value)) == ErrorCode.INVALID_REQUEST, name
    shown = await describe(control_plane, BROKER, "1")
    assert shown["num.partitions"].read_only
    assert not shown["log.retention.ms"].read_only


async def test_numbers_of_threads_double_or_halve(control_plane: ControlPlane) -> None:
    broker = await control_plane.start()
    assert broker.services is not None
    for threads in ("2", "4", "8", "4", "2", "1"):
        assert await alter(control_plane, BROKER, "1", ("log.cleaner.threads", SET, threads)) == 0
    assert await alter(control_plane, BROKER, "1", ("max.connections.per.ip.overrides", SET, "127.0.0.1:4")) == 0
    assert await alter(control_plane, BROKER, "1", ("max.connections.per.ip", SET, "0")) == 0


async def test_removals_of_settings_of_unknown_listeners(control_plane: ControlPlane) -> None:
    await control_plane.start()
    for name in ("listener.name.none.ssl.keystore.location", "listener.name.plaintext.ssl.keystore.location"):
        assert await alter(control_plane, BROKER, "1", (name, DELETE, None)) == 0
        assert await alter(control_plane, BROKER, "1", (name, SET, "x")) == ErrorCode.INVALID_REQUEST


async def test_logger_levels(control_plane: ControlPlane) -> None:
    await control_plane.start()
    logger = logging.getLogger("pybroker.unit")
    try:
        assert await alter(control_plane, LOGGER, "1", ("pybroker.unit", SET, "ERROR")) == 0
        assert logger.level == logging.ERROR
        assert (await describe(control_plane, LOGGER, "1"))["pybroker.unit"].value == "ERROR"
        assert await alter(control_plane, LOGGER, "1", ("pybroker.unit", DELETE, None)) == 0
        assert logger.level == logging.NOTSET
        assert await alter(control_plane, LOGGER, "1", ("pybroker.nobody", SET, "ERROR")) == ErrorCode.INVALID_CONFIG
        assert await replace(control_plane, LOGGER, "1", root="ERROR") == ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError):
            await describe(control_plane, LOGGER, "")
    finally:
        logger.setLevel(logging.NOTSET)


async def test_what_another_version_stored_does_not_stop_the_start(control_plane: ControlPlane) -> None:
    await control_plane.start()
    stored = {
        "log.retention.ms": "nonsense",
        "of.another.version": "x",
        "num.partitions": "9",
        "log.retention.bytes": "4",
    }
    await control_plane.parts.controller.submit(AlterConfigs((ConfigChange("broker", "<default>", dict(stored)),)))
    await control_plane.stop()
    broker = await control_plane.start()
    assert broker.services is not None
    assert broker.services.config["num.partitions"] == 1
    assert broker.services.config["log.retention.bytes"] == 4
    assert await alter(control_plane, BROKER, "", ("of.another.version", DELETE, None)) == 0


def test_entries_and_responses_have_the_same_fields() -> None:
    """A new field of ConfigEntry must not be forgotten in the answer."""
    assert len(ConfigEntry._fields) == 8
