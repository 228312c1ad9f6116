"""Brokers log in to each other, their listener serves no other clients, and authorization is the same on every
broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pybroker import native
from pybroker.broker.cluster.events import UpgradeType
from pybroker.broker.metadata.feature_levels import KRAFT_VERSION, METADATA_VERSION
from pybroker.broker.security.authorizer import AclOperation, ResourceType
from pybroker.client import NewTopic, ScramUpsertion, blocking
from pybroker.client.client_errors import BrokerConnectionError, KafkaError, KafkaTimeoutError
from pybroker.protocol import interbroker as wire
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.scram import BY_NAME
from pybroker.testing.cluster import Store
from tests.security import kit
from tests.security import test_delegation_tokens as tokens
from tests.support.brokers import PybrokerProcess
from tests.support.cluster import ClusterBroker, new_cluster, until
from tests.support.wire import free_port
from tests.wire.client import WireClient

BROKER, ROOT, STRANGER = "broker", "root", "stranger"
REFUSED = (KafkaError, BrokerConnectionError, KafkaTimeoutError)
MECHANISMS = ("PLAIN", *BY_NAME)
MODULES = {"PLAIN": "plain.PlainLoginModule"}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def jaas(mechanism: str, user: str, users: tuple[str, ...] = ()) -> str:
    """Return the JAAS entry with the broker's own user; with PLAIN it also lists all users."""
    module = f"org.apache.kafka.common.security.{MODULES.get(mechanism, 'scram.ScramLoginModule')}"
    known = "".join(f' user_{one}="{kit.password_of(one)}"' for one in users)
    return f'{module} required username="{user}" password="{kit.password_of(user)}"{known};'


class SecureBroker:
    """The listeners of one broker: PLAINTEXT, on which all requests are denied; SASL, for clients; BETWEEN, for
    brokers."""

    def __init__(self, broker: ClusterBroker, mechanism: str) -> None:
        self.process = broker
        self.port = free_port()
        plain = (BROKER, STRANGER) if mechanism == "PLAIN" else ()
        broker.settings |= {
            "listeners": f"{broker.settings['listeners']},SASL://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:SASL_PLAINTEXT,SASL:SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"listener.name.between.{mechanism.lower()}.sasl.jaas.config": jaas(mechanism, BROKER, plain),
            "listener.name.sasl.plain.sasl.jaas.config": kit.jaas([ROOT, STRANGER]),
            "connection.failed.authentication.delay.ms": "1",
        }

    def admin(self, user: str, mechanism: str = "PLAIN") -> blocking.AdminClient:
        """Return an admin client of a user."""
        return blocking.AdminClient(self.login(user, mechanism))

    def login(self, user: str, mechanism: str = "PLAIN") -> dict[str, object]:
        """Return a client's login settings."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": kit.password_of(user),
        }

    def as_user(self, user: str) -> WireClient:
        """Return a raw connection of a client that has logged in by PLAIN."""
        client = WireClient(self.port)
        answer = authenticate(client, user)
        assert answer.error_code == 0, answer.error_message
        return client


def authenticate(client: WireClient, user: str) -> Any:
    """Authenticate by PLAIN; return the last response."""
    assert client.call(m.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{kit.password_of(user)}".encode()
    return client.call(m.SaslAuthenticateRequest(auth_bytes=token), 2)


@contextmanager
def secure_cluster(folder: Path, mechanism: str, settings: Mapping[str, str]) -> Iterator[dict[int, SecureBroker]]:
    """Start three brokers that log in by a mechanism."""
    with new_cluster(folder, 3, settings) as cluster:
        brokers = {number: SecureBroker(broker, mechanism) for number, broker in cluster.brokers.items()}
        if mechanism in BY_NAME:
            for user in (BROKER, STRANGER):
                add_user(brokers[1].process, user, mechanism)
        cluster.start()
        yield brokers


def add_user(broker: PybrokerProcess, user: str, mechanism: str) -> None:
    """Run the command before the first start, like an operator."""
    settings = broker.folder / "broker.properties"
    command = broker.command()
    sets = [command[at + 1] for at, word in enumerate(command) if word == "--set"]
    settings.write_text("\n".join(sets) + "\n")
    said = ["users", "add", user, "--mechanism", mechanism, "--password-file", "-", "--config", str(settings)]
    done = subprocess.run(
        [sys.executable, "-m", "pybroker", *said],
        check=False,
        input=kit.password_of(user),
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def acknowledged_by_all(brokers: Mapping[int, SecureBroker], topic: str) -> None:
    """Write a record with acks=all: followers have logged in to leaders, and the controller to all brokers."""
    with brokers[1].admin(ROOT) as admin:
        admin.create_topics([NewTopic(topic, 3, 3, config={"min.insync.replicas": "3"})])
    with blocking.Producer({**brokers[2].login(ROOT), "acks": "all"}) as producer:
        for number in range(30):
            producer.send(topic, str(number).encode(), partition=number % 3)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[dict[int, SecureBroker]]:
    """Three brokers with an authorizer, in which brokers are super users. They log in by SCRAM, as users that were
    created before the first start."""
    settings = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{BROKER};User:{ROOT}",
        "offsets.topic.num.partitions": "1",
        **tokens.SECRET,
    }
    del store
    with secure_cluster(tmp_path_factory.mktemp("secure"), "SCRAM-SHA-512", settings) as running:
        yield running


def test_brokers_log_in_to_each_other(tmp_path: Path) -> None:
    """Without an authorizer, every client that logs in as the brokers' user is a broker; other users are not."""
    with secure_cluster(tmp_path, "PLAIN", {}) as running:
        acknowledged_by_all(running, "copied")
        with WireClient(running[1].process.between_port, interbroker=True) as stranger:
            assert authenticate(stranger, STRANGER).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert stranger.is_closed_by_peer()


def test_brokers_log_in_to_each_other_by_scram(tmp_path: Path) -> None:
    with secure_cluster(tmp_path, "SCRAM-SHA-256", {}) as running:
        acknowledged_by_all(running, "copied")


def test_brokers_log_in_with_an_authorizer(brokers: dict[int, SecureBroker]) -> None:
    """They log in by SCRAM, as users that a command has added to the metadata before the first start."""
    acknowledged_by_all(brokers, "guarded")


def between(broker: SecureBroker, user: str, password: str | None = None) -> Any:
    """The response of a broker's listener for brokers to a client that logs in by SCRAM."""
    settings = {**broker.login(user, "SCRAM-SHA-512"), "bootstrap.servers": f"127.0.0.1:{broker.process.between_port}"}
    with blocking.AdminClient(settings | ({"sasl.password": password} if password else {})) as admin:
        return admin.list_topics()


@pytest.mark.checklist("R37")
def test_no_client_is_served_where_brokers_talk(brokers: dict[int, SecureBroker]) -> None:
    """Clients are refused without a login, and as a user who is not a broker. A client with a broker's password gets no
    response to clients' requests."""
    with WireClient(brokers[1].process.between_port, interbroker=True) as client:
        client.send(wire.EnvelopeRequest(request_data=b"", client_host_address=b""), 0)
        assert client.is_closed_by_peer()
    with pytest.raises(REFUSED, match="is not a broker"):
        between(brokers[1], STRANGER)
    with pytest.raises(REFUSED):
        between(brokers[1], BROKER, "wrong")
    with pytest.raises(REFUSED):
        between(brokers[1], BROKER)
    line = f"User:{STRANGER} authenticated but is not a broker"
    until(lambda: line in brokers[1].process.console.read_text())


BROKERS_ONLY = (
    wire.LeaderAndIsrRequest,
    wire.StopReplicaRequest,
    wire.UpdateMetadataRequest,
    wire.ControlledShutdownRequest,
    wire.AlterPartitionRequest,
    wire.EnvelopeRequest,
    wire.UpdateClusterRequest,
)


@pytest.mark.checklist("R37", "FD10")
def test_no_broker_is_served_where_clients_are(brokers: dict[int, SecureBroker]) -> None:
    """This protects against every client: a follower's fetch could read beyond the high watermark and count as a
    replica with these records (CVE-2018-1288), and a controller's requests could change the metadata."""
    with brokers[1].as_user(ROOT) as client:
        topic = m.MetadataRequest_MetadataRequestTopic(name="guarded")
        found = client.call(m.MetadataRequest(topics=[topic]), 12).topics[0]
        partition = m.FetchRequest_FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        asked = [m.FetchRequest_FetchTopic(topic="guarded", topic_id=found.topic_id, partitions=[partition])]
        answer = client.call(m.FetchRequest(replica_id=2, max_wait_ms=0, min_bytes=1, topics=asked), 12)
        told = {answer.error_code, *(one.error_code for row in answer.responses for one in row.partitions)}
        assert told - {0} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    for kind in BROKERS_ONLY:
        schema = native.message_schema(kind.__name__, interbroker=True)
        assert schema is not None
        with brokers[1].as_user(ROOT) as client:
            client.send_frame(native.encode_request(kind(), schema.max_version, 1, "intruder"))
            assert client.is_closed_by_peer(), kind.__name__


QUOTAS_OF = ("user", "client-id")


def quotas(broker: SecureBroker) -> list[list[str | None]]:
    """Return the names of the entities with quotas, as a broker shows them."""
    with broker.as_user(ROOT) as client:
        entries = kit.call(client, m.DescribeClientQuotasRequest()).entries
    return [[part.entity_name for part in one.entity] for one in entries]


def logs_in(broker: SecureBroker, token: m.CreateDelegationTokenResponse) -> bool:
    """Return whether a client can log in by a delegation token."""
    with WireClient(broker.port) as client:
        return tokens.authenticate(client, token.token_id, token.hmac).error_code == 0


def finalize(client: WireClient, level: int, kind: UpgradeType) -> None:
    change = m.UpdateFeaturesRequest_FeatureUpdateKey(
        feature="group.version", max_version_level=level, upgrade_type=kind
    )
    assert kit.call(client, m.UpdateFeaturesRequest(timeout_ms=60_000, feature_updates=[change])).error_code == 0


OTHERS = [("share.version", 2), ("streams.version", 1), ("transaction.version", 2)]
"""Features that the test does not change."""


def finalized(broker: SecureBroker) -> list[tuple[str, int]]:
    """The active features that a broker reports, and their levels; without those of the metadata log."""
    with WireClient(broker.port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    found = [(one.name, one.max_version_level) for one in answer.finalized_features]
    return [feature for feature in found if feature[0] not in (METADATA_VERSION, KRAFT_VERSION)]


def test_users_and_entries_hold_at_every_broker(brokers: dict[int, SecureBroker]) -> None:
    """Users and entries created at one broker apply at all brokers, including one that was down meanwhile, as soon as
    it serves clients."""
    acknowledged_by_all(brokers, "shared")
    brokers[3].process.kill()
    with brokers[1].admin(ROOT) as admin:
        made = ScramUpsertion("alice", kit.password_of("alice"), BY_NAME["SCRAM-SHA-256"])
        admin.alter_user_scram_credentials([made])
    describe = kit.entry("alice", AclOperation.DESCRIBE, ResourceType.TOPIC, "shared")
    with brokers[2].as_user(ROOT) as client:
        kit.create_acls(client, describe)

    def seen(number: int) -> bool:
        with brokers[number].admin("alice", "SCRAM-SHA-256") as admin:
            return "shared" in admin.list_topics()

    limited = m.AlterClientQuotasRequest_EntryData(
        entity=[m.AlterClientQuotasRequest_EntityData(entity_type=kind, entity_name="alice") for kind in QUOTAS_OF],
        ops=[m.AlterClientQuotasRequest_OpData(key="producer_byte_rate", value=1024.0)],
    )
    with brokers[2].as_user(ROOT) as client:
        (changed,) = kit.call(client, m.AlterClientQuotasRequest(entries=[limited])).entries
        assert changed.error_code == 0
        finalize(client, 0, UpgradeType.SAFE_DOWNGRADE)
    assert seen(1)
    assert seen(2)
    assert quotas(brokers[1]) == [["alice", "alice"]]
    with brokers[2].as_user(ROOT) as client:
        token = tokens.create(client)
        assert token.error_code == 0
    for number in (1, 2):
        assert logs_in(brokers[number], token)
    assert finalized(brokers[1]) == finalized(brokers[2]) == OTHERS
    brokers[3].process.start()
    assert seen(3)
    assert quotas(brokers[3]) == [["alice", "alice"]]
    assert logs_in(brokers[3], token)
    with brokers[3].as_user(ROOT) as client:
        assert kit.call(client, m.ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0
    assert [logs_in(broker, token) for broker in brokers.values()] == [False] * 3
    assert finalized(brokers[3]) == OTHERS
    with brokers[1].as_user(ROOT) as client:
        finalize(client, 1, UpgradeType.UPGRADE)
    assert [finalized(broker) for broker in brokers.values()] == [[("group.version", 1), *OTHERS]] * 3
    kind, name = ResourceType.TOPIC, "shared"
    one = m.DeleteAclsRequest_DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=1,
        principal_filter="User:alice",
        host_filter="*",
        operation=1,
        permission_type=1,
    )
    with brokers[3].as_user(ROOT) as client:
        (removed,) = kit.call(client, m.DeleteAclsRequest(filters=[one])).filter_results
        assert len(removed.matching_acls) == 1
    for number in brokers:
        until(lambda number=number: not seen(number))
