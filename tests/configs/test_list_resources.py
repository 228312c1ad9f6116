"""ListConfigResources: resources with settings, by name; also through Kafka's tools."""

from __future__ import annotations

import pytest

from pybroker.broker.admin.config_changes import ResourceType
from pybroker.client import AlterConfigOp, ConfigResource, ConfigResourceType, NewTopic, OpType, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import run_tool
from tests.wire.client import WireClient

BROKERS = [(ResourceType.BROKER, "1"), (ResourceType.BROKER_LOGGER, "1")]


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker for each test: other tests leave topics and groups with settings on the shared one."""
    return start_broker()


def listed(broker: BrokerProcess, *kinds: int, version: int = 1) -> list[tuple[int, str]] | int:
    """Return types and names, or the error code."""
    with WireClient(broker.port) as client:
        answer = client.call(m.ListConfigResourcesRequest(resource_types=list(kinds)), version)
    return answer.error_code or [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_what_has_settings_is_listed(broker: BrokerProcess) -> None:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic("listed", 1), NewTopic("also", 1)])
    topics = listed(broker, ResourceType.TOPIC)
    assert isinstance(topics, list)
    assert {(ResourceType.TOPIC, "listed"), (ResourceType.TOPIC, "also")} == set(topics)
    assert listed(broker) == topics + BROKERS
    assert listed(broker, *(kind for kind, _ in BROKERS), ResourceType.BROKER) == BROKERS, "each once"
    assert listed(broker, ResourceType.GROUP, ResourceType.CLIENT_METRICS) == []
    assert listed(broker, ResourceType.TOPIC, version=0) == []


@pytest.mark.parametrize("kind", [0, 1, 64, -1])
def test_other_types_are_refused(broker: BrokerProcess, kind: int) -> None:
    assert listed(broker, ResourceType.TOPIC, kind) == ErrorCode.UNSUPPORTED_VERSION


def test_kafkas_tools_list_them(broker: BrokerProcess) -> None:
    asked = ["--bootstrap-server", broker.bootstrap]
    assert run_tool("kafka-client-metrics", [*asked, "--list"]).strip() == ""
    assert run_tool("kafka-configs", [*asked, "--describe", "--entity-type", "client-metrics"]).strip() == ""


def test_groups_with_settings_are_listed(broker: BrokerProcess) -> None:
    """They are listed until the last setting is removed; Kafka's tool also requests the settings of each resource."""
    group, name = ConfigResource(ConfigResourceType.GROUP, "listed"), "consumer.session.timeout.ms"
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.incremental_alter_configs({group: [AlterConfigOp(name, "50000")]}).all()
        assert listed(broker, ResourceType.GROUP) == [(ResourceType.GROUP, "listed")]
        shown = run_tool(
            "kafka-configs", ["--bootstrap-server", broker.bootstrap, "--describe", "--entity-type", "groups"]
        )
        assert f"{name}=50000" in shown
        admin.incremental_alter_configs({group: [AlterConfigOp(name, None, OpType.DELETE)]}).all()
        assert listed(broker, ResourceType.GROUP) == []
