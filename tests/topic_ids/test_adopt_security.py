"""`pybroker adopt` and security: it takes delegation tokens, users, quotas and ACLs of a real Apache Kafka from its
metadata log, and clients log in as before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker.client import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AuthenticationError,
    KafkaError,
    NewTopic,
    PatternType,
    QuotaEntity,
    ResourceType,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    blocking,
)
from pybroker.client.admin.quota_admin import DEFAULT
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.kafka_tools import run_tool
from tests.support.wire import free_port
from tests.topic_ids.test_adopt import adopt

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SETTINGS = {
    "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "kept for both",
}
ON_KAFKA = {
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
}
QUOTAS = {
    QuotaEntity(client_id="app"): {"producer_byte_rate": 1048576.0, "controller_mutation_rate": 0.5},
    QuotaEntity(user="alice"): {"request_percentage": 75.5},
    QuotaEntity(user="nobody", client_id="of a/nobody"): {"consumer_byte_rate": 2097152.0},
    QuotaEntity(user=DEFAULT): {"producer_byte_rate": 4194304.0},
    QuotaEntity(user=DEFAULT, client_id=DEFAULT): {"consumer_byte_rate": 8388608.0},
    QuotaEntity(ip="127.0.0.2"): {"connection_creation_rate": 100.0},
}


def entry(
    operation: AclOperation, name: str, pattern: PatternType = PatternType.LITERAL, principal: str = "User:alice"
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, principal, operation, AclPermissionType.ALLOW, pattern)


ACLS = [
    entry(AclOperation.CREATE, "alice.", PatternType.PREFIXED),
    entry(AclOperation.READ, "alice.", PatternType.PREFIXED),
    entry(AclOperation.READ, "shared"),
    entry(AclOperation.READ, "shared", principal="User:bob"),
    entry(AclOperation.DESCRIBE, "*", principal="User:*"),
]
GONE = entry(AclOperation.WRITE, "shared", principal="User:mallory")


class KafkaData(NamedTuple):
    """Data that Apache Kafka has left."""

    directory: Path
    token: tuple[str, str]
    """Id and HMAC of the token."""
    known: Any
    """Everything that the broker returned."""


def by(sasl: int, user: str, password: str, *, token: bool = False) -> dict[str, str]:
    """Return the settings of a client that logs in."""
    more = ' tokenauth="true"' if token else ""
    return {
        "bootstrap.servers": f"127.0.0.1:{sasl}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM} username="{user}" password="{password}"{more};',
    }


def tool(folder: Path, settings: dict[str, str], *arguments: str) -> str:
    file = folder / "alice.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    server = settings["bootstrap.servers"]
    return run_tool(
        "kafka-delegation-tokens", ["--bootstrap-server", server, "--command-config", str(file), *arguments]
    )


def rows(text: str) -> list[list[str]]:
    """Parse the output of `--describe`, without its head."""
    return sorted(line.split() for line in text.splitlines() if re.search(r"\s\S{80,}\s+User:", line))


def told(bootstrap: str) -> Any:
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        found = admin.describe_client_quotas()
        quotas = sorted(repr((sorted(one.entity.items()), sorted(one.limits.items()))) for one in found)
        acls = sorted(admin.describe_acls(AclBindingFilter()), key=repr)
        return quotas, acls, admin.describe_user_scram_credentials()


def listeners(broker: BrokerProcess, sasl: int) -> dict[str, str]:
    names = f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{sasl}"
    return {
        "listeners": names,
        "advertised.listeners": names,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaData]:
    folder = tmp_path_factory.mktemp("kafka")
    broker = KafkaProcess(folder, {**SETTINGS, **ON_KAFKA})
    sasl = free_port()
    broker.settings |= listeners(broker, sasl)
    broker.settings["listeners"] += f",CONTROLLER://127.0.0.1:{broker.controller_port}"
    broker.start()
    try:
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            wanted = [
                ScramUpsertion("alice", "in wonderland"),
                ScramUpsertion("bob", "the builder", ScramMechanism.SCRAM_SHA_512, 8192),
                ScramUpsertion("mallory", "in the middle"),
            ]
            admin.alter_user_scram_credentials(wanted).all()
            admin.alter_user_scram_credentials([ScramDeletion("mallory", ScramMechanism.SCRAM_SHA_256)]).all()
            admin.alter_client_quotas({**QUOTAS, QuotaEntity(client_id="gone"): {"consumer_byte_rate": 1.0}}).all()
            admin.alter_client_quotas({QuotaEntity(client_id="gone"): {"consumer_byte_rate": None}}).all()
            admin.create_acls([*ACLS, GONE]).all()
            admin.delete_acls([AclBindingFilter(principal=GONE.principal)]).all()
        alice = by(sasl, "alice", "in wonderland")
        tokens = []
        for renewer in ("User:bob", "User:carol"):
            made = tool(folder, alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", renewer)
            found = re.search(r"^(\S+)\s+(\S{80,})\s+User:alice", made, re.MULTILINE)
            assert found is not None, made
            tokens.append((found[1], found[2]))
        tool(folder, alice, "--renew", "--hmac", tokens[0][1], "--renew-time-period", "3600000")
        tool(folder, alice, "--expire", "--hmac", tokens[1][1], "--expiry-time-period", "-1")
        described = rows(tool(folder, alice, "--describe", "--owner-principal", "User:alice"))
        known = (*told(broker.bootstrap), described)
        broker.stop()
        yield KafkaData(broker.data_dir, tokens[0], known)
    finally:
        broker.kill()


@pytest.fixture
def pybroker(left: KafkaData, tmp_path: Path) -> Iterator[tuple[BrokerProcess, int, list[str]]]:
    """A broker on the adopted directory, its port for clients that log in, and the notes of adopt."""
    done = adopt(left.directory, "--json")
    assert done.returncode == 0, done.stderr
    broker = PybrokerProcess(tmp_path, SETTINGS)
    sasl = free_port()
    broker.settings |= {**listeners(broker, sasl), "log.dirs": str(left.directory)}
    broker.start()
    yield broker, sasl, json.loads(done.stdout)["notes"]
    broker.kill()


def test_clients_log_in_and_are_bounded_as_before(
    left: KafkaData, pybroker: tuple[BrokerProcess, int, list[str]], tmp_path: Path
) -> None:
    broker, sasl, notes = pybroker
    token_id, hmac = left.token
    with blocking.AdminClient(by(sasl, token_id, hmac, token=True)) as admin:
        assert admin.describe_cluster().cluster_id
    alice = by(sasl, "alice", "in wonderland")
    described = rows(tool(tmp_path, alice, "--describe", "--owner-principal", "User:alice"))
    assert len(described) == 1, "what was ended is not there again"
    quotas, acls, users, before = left.known
    assert described == before, "id, HMAC, owner, renewers and times"
    assert told(broker.bootstrap) == (quotas, acls, users)
    assert len(quotas) == len(QUOTAS)
    assert acls == sorted(ACLS, key=repr)
    assert sorted(users) == ["alice", "bob"]
    with (
        blocking.AdminClient(by(sasl, "mallory", "in the middle")) as mallory,
        pytest.raises(AuthenticationError),
    ):
        mallory.describe_cluster()

    # The token still belongs to alice; bob may renew it, and it has alice's rights.
    tool(tmp_path, alice, "--renew", "--hmac", hmac, "--renew-time-period", "7200000")
    with blocking.AdminClient(by(sasl, token_id, hmac, token=True)) as admin:
        admin.create_topics([NewTopic("alice.made", 1, 1)]).all()
        with pytest.raises(KafkaError):
            admin.create_topics([NewTopic("bob.made", 1, 1)]).all()

    assert any("1 delegation tokens are adopted" in note for note in notes)
    for kind in ("RegisterBrokerRecord", "RegisterControllerRecord"):
        (note,) = [note for note in notes if note.startswith(f"{kind} is not adopted")]
        assert re.search(r"\(\d+ in total\): \S", note), note
    assert not [note for note in notes if "records of type" in note], "every type of this Kafka is known"
    broker.restart(crash=True)
    with blocking.AdminClient(by(sasl, token_id, hmac, token=True)) as admin:
        assert admin.describe_cluster().cluster_id
