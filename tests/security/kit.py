"""Shared by the tests of security: a broker with authentication, connections of users, ACL entries by requests."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pybroker import Broker, native
from pybroker.broker.security.authorizer import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.protocol import messages as m
from tests.wire.client import WireClient

VERSIONS = {row.key: row.max_version for row in native.api_table()}
ROOT = "root"

NEVER_SECONDS = 60.0
"""Time limit for immediate conditions; only a failure reaches it."""


def password_of(user: str) -> str:
    """Return the password of a PLAIN user of the tests."""
    return f"{user}-secret"


def jaas(users: Iterable[str]) -> str:
    """Return a PLAIN login module with these users."""
    entries = " ".join(f'user_{user}="{password_of(user)}"' for user in users)
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {entries};"


def secure_broker(users: Iterable[str] = (), settings: Mapping[str, object] | None = None) -> Broker:
    """A broker with the listeners SASL (first) and PLAINTEXT, an authorizer, and `root` as super user."""
    return Broker(
        {
            "listeners": "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listener.name.sasl.plain.sasl.jaas.config": jaas([ROOT, *users]),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ROOT}",
            "auto.create.topics.enable": "true",
            "offsets.topic.num.partitions": "1",
            "connection.failed.authentication.delay.ms": "1",
            "connection.authentication.timeout.ms": "60s",
            **(settings or {}),
        }
    )


def port_of(broker: Broker, listener: str) -> int:
    """Return the port of a listener."""
    return next(port for name, _, port in broker.endpoints if name == listener)


def call(client: WireClient, request: Any, version: int | None = None) -> Any:
    """Send a request, by default in the highest version; return the response."""
    schema = native.message_schema(type(request).__name__)
    assert schema is not None
    key = schema.api_key
    assert key is not None
    return client.call(request, VERSIONS[key] if version is None else version)


def login(broker: Broker, user: str, password: str | None = None) -> WireClient:
    """Return a connection that has authenticated by PLAIN."""
    client = WireClient(port_of(broker, "SASL"))
    assert call(client, m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
    token = f"\0{user}\0{password_of(user) if password is None else password}".encode()
    answer = call(client, m.SaslAuthenticateRequest(auth_bytes=token))
    assert answer.error_code == 0, answer.error_message
    return client


def through_tls(port: int, context: ssl.SSLContext, name: str | None = "localhost") -> WireClient:
    """Return a connection over TLS."""
    return WireClient(port, wrap=lambda plain: context.wrap_socket(plain, server_hostname=name))


def entry(
    principal: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    allow: bool = True,
    prefixed: bool = False,
    host: str = "*",
) -> m.CreateAclsRequest_AclCreation:
    """Return one ACL entry to create."""
    return m.CreateAclsRequest_AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal=f"User:{principal}",
        host=host,
        operation=operation,
        permission_type=PermissionType.ALLOW if allow else PermissionType.DENY,
    )


def create_acls(client: WireClient, *entries: m.CreateAclsRequest_AclCreation) -> None:
    """Create ACL entries; all must be accepted."""
    answer = call(client, m.CreateAclsRequest(creations=list(entries)))
    assert [one.error_code for one in answer.results] == [0] * len(entries), answer


def create_topics(client: WireClient, *names: str) -> dict[str, native.Uuid]:
    """Create topics of one partition; return their ids."""
    answer = call(
        client,
        m.CreateTopicsRequest(
            topics=[
                m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in names
            ]
        ),
    )
    assert [one.error_code for one in answer.topics] == [0] * len(names), answer
    return {one.name: one.topic_id for one in answer.topics}


def codes(answer: Any) -> Iterator[int]:
    """Return every error code in a response."""
    if isinstance(answer, msgspec.Struct):
        for field in answer.__struct_fields__:
            value = getattr(answer, field)
            if field in ("error_code", "partition_error_code"):
                yield value
            else:
                yield from codes(value)
    elif isinstance(answer, list):
        for item in answer:
            yield from codes(item)


def until(condition: Any) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + NEVER_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
