"""A cluster with TLS for all traffic of brokers and clients. Certificates identify brokers, and are replaced on one
broker at a time while the cluster runs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode
from tests.security import kit
from tests.support.brokers import BrokerProcess
from tests.support.certificates import Authority
from tests.support.cluster import BrokerCluster, ClusterBroker, described, new_cluster, until
from tests.support.keystores import PASSWORD, converted, pkcs12, truststore
from tests.support.wire import free_port
from tests.wire.client import WireClient

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BROKERS = (1, 2, 3)
TOPIC = "under-tls"


class Stores:
    """The stores of each broker: one has PKCS12, one JKS, one PEM."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.authority = authority

    def show(self, number: int, authority: Authority) -> None:
        """Put a new identity into the broker's keystore."""
        identity = authority.identity(f"broker-{number}")
        fresh = self.folder / f"{number}.fresh"
        if number == 3:
            fresh.write_bytes(identity.read_bytes())
        else:
            pkcs12(fresh, identity)
            if number == 2:
                fresh = converted(self.folder / f"{authority.certificate.stem}.jks", fresh, "JKS")
        fresh.rename(self.folder / f"{number}.keystore")

    def trust(self, *authorities: Authority) -> None:
        """Put these certificates into each truststore, with empty revocation lists."""
        self.revoke(*authorities)
        fresh = self.folder / "trusted.fresh"
        fresh.write_text("".join(one.certificate.read_text() for one in authorities))
        fresh.rename(self.folder / "trusted.pem")

    def revoke(self, *authorities: Authority, broker: int | None = None) -> None:
        """Let each authority revoke that broker's certificate, or none."""
        names = [] if broker is None else [f"broker-{broker}"]
        fresh = self.folder / "revoked.fresh"
        fresh.write_text("".join(one.revoked(*names).read_text() for one in authorities))
        fresh.rename(self.folder / "revoked.pem")

    def settings(self, broker: ClusterBroker, port: int) -> Mapping[str, str]:
        """Return the settings of the listeners: CLIENTS and BETWEEN use TLS; over PLAINTEXT the test checks whether the
        broker runs."""
        kind = {1: "PKCS12", 2: "JKS", 3: "PEM"}[broker.broker_id]
        return {
            "listeners": f"{broker.settings['listeners']},CLIENTS://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:SSL,CLIENTS:SSL",
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(self.folder / f"{broker.broker_id}.keystore"),
            **({} if kind == "PEM" else {"ssl.keystore.password": PASSWORD}),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "trusted.pem"),
            "ssl.crl.location": str(self.folder / "revoked.pem"),
            "listener.name.between.ssl.client.auth": "required",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "".join(f"User:CN=broker-{one};" for one in BROKERS) + "User:CN=root;User:ANONYMOUS",
        }


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    authority = Authority(tmp_path / "authority", "first")
    made = Stores(tmp_path, authority)
    for number in BROKERS:
        made.show(number, authority)
    made.trust(authority)
    return made


@pytest.fixture
def cluster(stores: Stores, tmp_path: Path) -> Iterator[BrokerCluster]:
    with new_cluster(tmp_path / "cluster", 3, {"offsets.topic.num.partitions": "1"}) as made:
        for broker in made.brokers.values():
            broker.advertised_port = free_port()
            broker.settings |= stores.settings(broker, broker.advertised_port)
        made.start()
        yield made


def client(cluster: BrokerCluster, stores: Stores) -> dict[str, Any]:
    """Return the settings of a client, with Java's names and a truststore made by keytool."""
    place = stores.folder / "client.p12"
    if not place.exists():
        truststore(place, stores.authority.certificate, "PKCS12")
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(place),
        "ssl.truststore.password": PASSWORD,
    }


def test_a_broker_whose_certificate_is_revoked_is_kept_out(cluster: BrokerCluster, stores: Stores) -> None:
    """The controller does not connect to the broker. When its certificate is valid again, the broker continues to
    copy."""
    settings = client(cluster, stores)
    with blocking.AdminClient(settings) as admin, blocking.Producer({**settings, "acks": "all"}) as producer:
        admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})])
        producer.send(TOPIC, b"before")
        before = {number: readings(broker) for number, broker in cluster.brokers.items()}
        stores.revoke(stores.authority, broker=3)
        for number in (1, 2):
            until(lambda number=number: readings(cluster.brokers[number]) > before[number])
        cluster.brokers[3].kill()
        until(lambda: in_sync(admin) == {1, 2})
        cluster.brokers[3].launch()
        until(lambda: sum(len(refusals(cluster.brokers[number])) for number in (1, 2)))
        for number in range(20):
            producer.send(TOPIC, str(number).encode())
        assert in_sync(admin) == {1, 2}
        for number in (1, 2):
            assert len(refusals(cluster.brokers[number])) < 2
            assert "Traceback" not in cluster.brokers[number].console.read_text()
        stores.revoke(stores.authority)
        until(lambda: in_sync(admin) == set(BROKERS))


def test_a_leader_dies_and_certificates_are_replaced(cluster: BrokerCluster, stores: Stores) -> None:
    other = Authority(stores.folder / "other", "second")
    settings = client(cluster, stores)
    with blocking.AdminClient(settings) as admin, blocking.Producer({**settings, "acks": "all"}) as producer:
        admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})])
        for number in range(50):
            producer.send(TOPIC, str(number).encode())
        leader = described(admin, TOPIC).partitions[0].leader
        assert leader is not None
        first = leader.id
        cluster.brokers[first].kill()
        for number in range(50, 100):
            producer.send(TOPIC, str(number).encode())
        cluster.brokers[first].start()
        until(lambda: in_sync(admin) == set(BROKERS))

        # All brokers trust both authorities; then one after the other presents a certificate of the new authority.
        stores.trust(stores.authority, other)
        for broker in cluster.brokers.values():
            until(lambda broker=broker: readings(broker) > 0)
        for number in BROKERS:
            stores.show(number, other)
            shown = ssl.create_default_context(cafile=str(other.certificate))
            until(lambda number=number, shown=shown: is_shown(cluster.brokers[number], shown))
        # Clients that reconnect see the new certificate and are accepted.
        stores.trust(other)
        for broker in cluster.brokers.values():
            until(lambda broker=broker: readings(broker) > 1)
        renewed = {**settings, "ssl.truststore.location": str(other.certificate)}
        del renewed["ssl.truststore.password"]
        cluster.brokers[first].kill()
        cluster.brokers[first].start()
        with blocking.AdminClient(renewed) as again, blocking.Producer({**renewed, "acks": "all"}) as writer:
            until(lambda: in_sync(again) == set(BROKERS))
            for number in range(100, 150):
                writer.send(TOPIC, str(number).encode())
    with blocking.Consumer({**renewed, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([TOPIC])
        values: list[int] = []
        until(lambda: values.extend(int(one.value) for one in consumer.poll(1)) or len(values) >= 150)
    assert values == list(range(150))


def in_sync(admin: blocking.AdminClient) -> set[int]:
    return {node.id for node in described(admin, TOPIC).partitions[0].isr}


def readings(broker: BrokerProcess) -> int:
    """Return how often the broker has found new files."""
    return broker.console.read_text().count("ssl.* settings for new connections listener=BETWEEN")


def refusals(broker: BrokerProcess) -> list[str]:
    """Return metrics and log lines about broker 3."""
    words = ("cannot connect to a broker broker=3: TLS with ", "certificate revoked")
    return [line for line in broker.console.read_text().splitlines() if all(word in line for word in words)]


def is_shown(broker: BrokerProcess, context: ssl.SSLContext) -> bool:
    try:
        kit.through_tls(int(broker.bootstrap.rpartition(":")[2]), context).close()
        return True
    except ssl.SSLError:
        return False


@pytest.mark.checklist("R37")
def test_who_shows_a_client_s_certificate_is_no_broker(cluster: BrokerCluster, stores: Stores) -> None:
    """The client counts as a broker neither in the control plane nor in the data plane. Without a certificate there is
    no connection at all."""

    def between(identity: Path | None) -> WireClient:
        context = ssl.create_default_context(cafile=str(stores.authority.certificate))
        if identity is not None:
            context.load_cert_chain(str(identity))
        wrap = lambda plain: context.wrap_socket(plain, server_hostname="localhost")  # noqa: E731
        return WireClient(cluster.brokers[1].between_port, interbroker=True, wrap=wrap)

    stop = wire.StopReplicaRequest(controller_id=2, controller_epoch=1_000)
    partition = wire.FetchRequest_FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topic = wire.FetchRequest_FetchTopic(topic_id=Uuid.random(), partitions=[partition])
    with between(stores.authority.identity("etl")) as stranger:
        fetch = wire.FetchRequest(replica_id=2, max_wait_ms=0, min_bytes=1, topics=[topic])
        answer = stranger.call(fetch, 13)
        told = {answer.error_code, *(one.error_code for row in answer.responses for one in row.partitions)}
        assert told - {0} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        assert stranger.call(stop, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises((ssl.SSLError, ConnectionError)), between(None) as nobody:
        nobody.call(stop, 4)
