"""A broker whose `inter.broker.protocol.version` is below 2.8, as its clients and its store see it."""

from __future__ import annotations

import json
from typing import Any

from pybroker.broker.metadata import znodes
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.support.brokers import BrokerProcess
from tests.topic_ids.stopped import nodes_below, topic_node
from tests.wire.client import WireClient

VERSION = "inter.broker.protocol.version"
OLD = {VERSION: "2.7-IV2"}


def served(port: int) -> dict[int, tuple[int, int]]:
    """Return the versions in ApiVersions: key → lowest and highest version."""
    with WireClient(port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def alter(port: int, version: str | None, *, broker: str = "", validate_only: bool = False) -> Any:
    """Set (None: remove) the dynamic protocol version of all brokers, or of one."""
    config = m.IncrementalAlterConfigsRequest_AlterableConfig(
        name=VERSION, config_operation=0 if version is not None else 1, value=version
    )
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=4, resource_name=broker, configs=[config]
    )
    with WireClient(port) as client:
        request = m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        return client.call(request, 1).responses[0]


def described(port: int, broker: str = "1") -> Any:
    """Return the setting as DescribeConfigs shows it."""
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=4, resource_name=broker, configuration_keys=[VERSION]
    )
    with WireClient(port) as client:
        (result,) = client.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    (entry,) = result.configs
    return entry


def hidden_ids(broker: BrokerProcess) -> dict[str, Uuid]:
    """Return the ids that a stopped broker stores beside the topics' nodes."""
    start = len(znodes.TOPIC_IDS) + 1
    found = nodes_below(broker.data_dir, znodes.TOPIC_IDS)
    return {path[start:]: Uuid.parse(json.loads(data)["id"]) for path, data in found.items()}


def shown_ids(broker: BrokerProcess, *names: str) -> dict[str, Uuid]:
    """Return the ids in the topics' nodes of a stopped broker, which must be of version 3."""
    nodes = {name: topic_node(broker.data_dir, name) for name in names}
    assert {node["version"] for node in nodes.values()} == {3}
    return {name: Uuid.parse(node["id"]) for name, node in nodes.items()}
