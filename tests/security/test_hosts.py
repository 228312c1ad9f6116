"""Hosts of access control entries: addresses and networks (KIP-1276), IPv4 and IPv6, on both planes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker import Broker
from pybroker.broker.security.authorizer import AclOperation, ResourceType
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.security.kit import ROOT, call, create_acls, create_topics, entry, login, secure_broker
from tests.security.rows import _fetch
from tests.wire.client import WireClient

OP, TOPIC = AclOperation, ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    listeners = "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,SIX://[::1]:0"
    protocols = "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT"
    with secure_broker(settings={"listeners": listeners, "listener.security.protocol.map": protocols}) as broker:
        yield broker


def asked(broker: Broker, listener: str, name: str) -> set[int]:
    """Return the responses of Fetch (data plane) and DescribeTopicPartitions (control plane)."""
    host, port = next((host, port) for each, host, port in broker.endpoints if each == listener)
    with WireClient(port, host=host) as client:
        described = m.DescribeTopicPartitionsRequest(
            topics=[m.DescribeTopicPartitionsRequest_TopicRequest(name=name)], response_partition_limit=10
        )
        (topic,) = call(client, described).topics
        (fetched,) = call(client, _fetch(name, Uuid.ZERO), 12).responses
        return {topic.error_code, fetched.partitions[0].error_code}


@pytest.mark.parametrize(
    ("host", "four", "six"),
    [
        ("127.0.0.0/8", True, False),
        ("127.0.0.1/32", True, False),
        ("127.9.9.9/8", True, False),
        ("127.0.0.0/32", False, False),
        ("10.0.0.0/8", False, False),
        ("0.0.0.0/0", True, False),
        ("::/0", False, True),
        ("::1/128", False, True),
        ("::/127", False, True),
        ("2001:db8::/32", False, False),
        ("0:0:0:0:0:0:0:1", False, True),
    ],
)
def test_entries_from_networks(host: str, four: bool, six: bool, broker: Broker) -> None:
    name = f"t-{host.replace('/', '_').replace(':', '.')}"
    root = login(broker, ROOT)
    create_topics(root, name)
    create_acls(root, entry("ANONYMOUS", OP.READ, TOPIC, name, host=host))
    assert asked(broker, "PLAINTEXT", name) == ({0} if four else {DENIED})
    assert asked(broker, "SIX", name) == ({0} if six else {DENIED})
    create_acls(
        root,
        entry("ANONYMOUS", OP.READ, TOPIC, name),
        entry("ANONYMOUS", OP.ALL, TOPIC, name, host=host, allow=False),
    )
    assert asked(broker, "PLAINTEXT", name) == ({DENIED} if four else {0})
    assert asked(broker, "SIX", name) == ({DENIED} if six else {0})


NONSENSE = ["127.0.0.0/99", "10.0.0.x/8", "/8", "10.0.0.0/", "host/8", "::/129", "10.0.0.0/8/8", ""]


@pytest.mark.parametrize("host", NONSENSE)
def test_nonsense_is_refused(host: str, broker: Broker) -> None:
    answer = call(login(broker, ROOT), m.CreateAclsRequest(creations=[entry("a", OP.READ, TOPIC, "t", host=host)]))
    assert [one.error_code for one in answer.results] == [ErrorCode.INVALID_REQUEST]
