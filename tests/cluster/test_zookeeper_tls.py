"""Brokers that reach ZooKeeper under TLS with a certificate of their own, as PKCS12, JKS and PEM, and by a digest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from tests.support.certificates import Authority
from tests.support.cluster import BrokerCluster, described, until
from tests.support.keystores import PASSWORD, converted, pkcs12, truststore
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: TLS to it")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def cluster(authority: Authority, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Broker 1 has PKCS12 and JKS stores, broker 2 the two formats exchanged (made by keytool), broker 3 PEM files."""
    server = ZooKeeperServer(tmp_path / "zookeeper", tls=(authority.identity("zookeeper"), authority.certificate))
    server.start()
    identity = authority.identity("broker")
    key = pkcs12(tmp_path / "key.p12", identity)
    jks = truststore(tmp_path / "trusted.jks", authority.certificate, "JKS")
    p12 = truststore(tmp_path / "trusted.p12", authority.certificate, "PKCS12")
    stores = {
        1: {"keystore.location": key, "truststore.location": jks, "truststore.type": "JKS"},
        2: {"keystore.location": converted(tmp_path / "key.jks", key, "JKS"), "truststore.location": p12},
        3: {"keystore.location": identity, "truststore.location": authority.certificate},
    }
    made = BrokerCluster(tmp_path / "cluster", 3, server, {"offsets.topic.num.partitions": "1"})
    for number, broker in made.brokers.items():
        broker.settings |= {
            "zookeeper.connect": server.secure_address,
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.digest": "brokers:secret",
            "zookeeper.set.acl": "true",
            **{f"zookeeper.ssl.{name}": str(value) for name, value in stores[number].items()},
        }
        if number != 3:
            broker.settings |= {f"zookeeper.ssl.{one}.password": PASSWORD for one in ("keystore", "truststore")}
    try:
        made.start()
        yield made
    finally:
        made.kill()
        server.kill()


def test_a_cluster(cluster: BrokerCluster, authority: Authority, tmp_path: Path) -> None:
    """A topic is created, its leader dies and restarts; a broker that does not trust ZooKeeper's certificate reports
    that."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("by-tls", 1, 3)])
        leader = described(admin, "by-tls").partitions[0].leader
        assert leader is not None
        cluster.brokers[leader.id].kill()
        cluster.brokers[leader.id].start()
        until(lambda: len(described(admin, "by-tls").partitions[0].isr) == 3)
    broker = cluster.brokers[1]
    broker.stop()
    stranger = Authority(tmp_path / "stranger", "stranger")
    broker.settings |= {
        "zookeeper.ssl.truststore.location": str(truststore(tmp_path / "other.jks", stranger.certificate, "JKS")),
        "zookeeper.connection.timeout.ms": "2s",
    }
    with pytest.raises(RuntimeError, match=r"zookeeper\.connect"):
        broker.start()
    broker.settings["zookeeper.ssl.truststore.password"] = "wrong"
    with pytest.raises(RuntimeError, match=r"zookeeper\.ssl\.truststore\.location=.*other\.jks"):
        broker.start()
