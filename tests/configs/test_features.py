"""Features of the cluster (KIP-584): Kafka's tool shows and changes levels, and a level of 0 disables its feature."""

from __future__ import annotations

import re

import pytest

from pybroker.client import NewTopic, TopicPartition
from pybroker.client.blocking import AdminClient
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import ToolError, run_tool
from tests.topic_ids.lives import until
from tests.wire.client import WireClient

GROUPS, SHARE, STREAMS, TRANSACTIONS = "group.version", "share.version", "streams.version", "transaction.version"
OTHERS = {SHARE: 2, STREAMS: 1, TRANSACTIONS: 2}
LEVELS = {GROUPS: 1, **OTHERS}
UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker of the test's own: features apply to the whole cluster."""
    return start_broker()


def updated(
    broker: BrokerProcess, *changes: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> int:
    """Change a feature; return the error code."""
    keys = [
        m.UpdateFeaturesRequest_FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=version == 0 and kind != UPGRADE
        )
        for name, level, kind in changes
    ]
    request = m.UpdateFeaturesRequest(timeout_ms=60_000, feature_updates=keys, validate_only=validate_only)
    with WireClient(broker.port) as client:
        answer = client.call(request, version)
    assert bool(answer.error_code) == bool(answer.error_message)
    told = [] if answer.error_code or version == 2 else [(name, 0) for name, *_ in changes]
    assert [(one.feature, one.error_code) for one in answer.results] == told
    return int(answer.error_code)


def finalized(broker: BrokerProcess) -> tuple[dict[str, int], int]:
    """Return levels and epoch, as clients see them."""
    with WireClient(broker.port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    supported = {(one.name, one.min_version, one.max_version) for one in answer.supported_features}
    assert supported == {(name, 0, level) for name, level in LEVELS.items()}
    return {one.name: one.max_version_level for one in answer.finalized_features}, answer.finalized_features_epoch


def heartbeat(broker: BrokerProcess) -> int:
    """Return the error code for a member that joins."""
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    with WireClient(broker.port) as client:
        answers = []

        def joined() -> bool:
            answers.append(client.call(request, 1).error_code)
            return answers[-1] not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

        client.call(m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        until(joined)
    return int(answers[-1])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_level_goes_down_and_up(broker: BrokerProcess, version: int) -> None:
    assert finalized(broker) == (LEVELS, 0)
    assert heartbeat(broker) == 0
    assert updated(broker, (GROUPS, 0, SAFE), version=version) == 0
    assert finalized(broker) == (OTHERS, 1)
    assert heartbeat(broker) == ErrorCode.UNSUPPORTED_VERSION
    with WireClient(broker.port) as client:
        (described,) = client.call(m.ConsumerGroupDescribeRequest(group_ids=["g"]), 0).groups
    assert described.error_code == ErrorCode.UNSUPPORTED_VERSION
    broker.kill()
    broker.start()
    assert finalized(broker) == (OTHERS, 1), "it is kept"
    assert heartbeat(broker) == ErrorCode.UNSUPPORTED_VERSION
    assert updated(broker, (GROUPS, 1, UPGRADE), version=version) == 0
    assert finalized(broker) == (LEVELS, 2)
    assert heartbeat(broker) == 0


def test_classic_groups_are_described_where_newer_kinds_are_switched_off(broker: BrokerProcess) -> None:
    assert updated(broker, (GROUPS, 0, SAFE), (SHARE, 0, SAFE)) == 0
    with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic("t")])
        admin.alter_consumer_group_offsets("classic", {TopicPartition("t", 0): 0})
        assert admin.describe_groups(["classic"]).all()["classic"].state == "Empty"


def test_what_is_no_change_of_a_level(broker: BrokerProcess) -> None:
    refused = [
        [("no.such", 1, UPGRADE)],
        [("metadata.version", 20, UPGRADE)],
        [(GROUPS, 2, UPGRADE)],
        [(TRANSACTIONS, 3, UPGRADE)],
        [(GROUPS, -1, UNSAFE)],
        [(GROUPS, 0, UPGRADE)],
        [(GROUPS, 0, SAFE), ("no.such", 1, UPGRADE)],
    ]
    for changes in refused:
        for validate_only in (True, False):
            assert updated(broker, *changes, validate_only=validate_only) == ErrorCode.INVALID_UPDATE_VERSION, changes
    assert updated(broker, (GROUPS, 1, 0)) == ErrorCode.INVALID_UPDATE_VERSION
    assert updated(broker, (GROUPS, 1, UPGRADE), (GROUPS, 0, SAFE)) == ErrorCode.INVALID_REQUEST
    assert updated(broker, (GROUPS, 0, UNSAFE), validate_only=True) == 0
    assert updated(broker, (GROUPS, 1, UPGRADE)) == 0
    assert updated(broker) == 0
    assert finalized(broker) == (LEVELS, 0), "nothing was changed"
    assert updated(broker, (GROUPS, 0, SAFE)) == 0
    assert updated(broker, (GROUPS, 1, SAFE)) == ErrorCode.INVALID_UPDATE_VERSION


def test_without_topic_ids_there_are_no_groups_of_the_newer_protocol(start_broker: StartBroker) -> None:
    broker = start_broker({"inter.broker.protocol.version": "2.7"})
    assert updated(broker, (GROUPS, 1, UPGRADE)) == ErrorCode.INVALID_UPDATE_VERSION
    with WireClient(broker.port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    assert [one.name for one in answer.supported_features] == [TRANSACTIONS]


def test_kafkas_tool_shows_and_changes_them(broker: BrokerProcess) -> None:
    def features(*arguments: str) -> str:
        return run_tool("kafka-features", ["--bootstrap-server", broker.bootstrap, *arguments])

    def shown() -> list[tuple[str, ...]]:
        form = r"Feature: (\S+)\s+SupportedMinVersion: (\d+)\s+SupportedMaxVersion: (\d+)\s+Finalized\w+: (\d+)"
        return [found.groups() for found in re.finditer(form, features("describe"))]

    others = [(SHARE, "0", "2", "2"), (STREAMS, "0", "1", "1"), (TRANSACTIONS, "0", "2", "2")]
    assert shown() == [(GROUPS, "0", "1", "1"), *others]
    assert f"{GROUPS} was downgraded to 0" in features("downgrade", "--feature", f"{GROUPS}=0")
    assert shown() == [(GROUPS, "0", "1", "0"), *others]
    assert f"{GROUPS} was upgraded to 1" in features("upgrade", "--feature", f"{GROUPS}=1")
    assert f"{GROUPS} was disabled" in features("disable", "--feature", GROUPS)
    with pytest.raises(ToolError, match="There is no feature"):
        features("upgrade", "--release-version", "4.0")
    assert shown() == [(GROUPS, "0", "1", "0"), *others]
