"""Kafka's own tables as the reference: shared settings are the same, except for listed deviations."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker.config import BROKER_SETTINGS, BROKER_SYNONYM, TOPIC_SETTINGS, ConfigKey, render_value
from pybroker.config.foreign_settings import is_foreign, is_of_providers
from pybroker.config.topic_defs import ONLY_AS
from tests.support.java import compiled, java_command
from tests.support.maven import BROKER, jars

# Kafka's authorizer reads two of these itself: super.users and allow.everyone.if.no.acl.found.
# inter.broker.protocol.version was Kafka's until 3.9.
OF_ZOOKEEPER = {
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "metadata.store",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.digest",
    "zookeeper.session.timeout.ms",
    "zookeeper.set.acl",
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
}
"""Settings for clusters on ZooKeeper: Kafka's names up to 3.9, which later versions have dropped, and pybroker's own.
"""

# Kafka's settings that are not in that table: those of its ZooKeeper mode, or ones known only as dynamic settings.
ELSEWHERE = {
    "follower.replication.throttled.rate",
    "leader.imbalance.per.broker.percentage",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}

OURS = {
    "allow.everyone.if.no.acl.found",
    "auto.create.deleted.topics.enable",
    "connection.authentication.timeout.ms",
    "connection.inflight.max.bytes",
    "controller.quorum.voters.target",
    "delegation.token.master.key",
    "delegation.token.max.per.user",
    "delete.topic.delay.ms",
    "group.consumer.rebalance.heartbeat.interval.ms",
    "group.max.metadata.bytes",
    "group.max.metadata.bytes.total",
    "transactional.id.max.bytes.total",
    "ingest.copy.bytes.max",
    "ingest.id.retention.ms",
    "ingest.attempts.max",
    "ingest.cached.bytes.max",
    "ingest.committed.max",
    "ingest.open.max",
    "ingest.quota.bytes.per.second",
    "ingest.quota.shared.bytes.per.second",
    "ingest.staged.bytes.max",
    "ingest.ttl.max.ms",
    "ingest.ttl.ms",
    "inter.broker.protocol.version",
    "log.dir.layout",
    "log.dirs.group.access",
    "log.flush.mode",
    "log.format",
    "log.level",
    "metrics.clients.max",
    "metrics.groups.max",
    "metrics.listener",
    "metrics.partitions.max",
    "metrics.topics.max",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    "otlp.client.metrics.enable",
    "otlp.endpoint",
    "otlp.headers",
    "otlp.interval.ms",
    "otlp.resource.attributes",
    "otlp.timeout.ms",
    "producer.ids.max",
    "producer.ids.per.partition.max",
    "ready.log.dir.usable.bytes.min",
    "shutdown.timeout.ms",
    "slow.request.log.ms",
    "ssl.crl.location",
    "super.users",
    "stale.replicas.max.percent",
    "topic.history.max.incarnations",
} | OF_ZOOKEEPER | ELSEWHERE

TOPIC_OWN = {"delete.protection.enable", "ingest.quota.topic.bytes.per.second"}

# Setting → why its default differs from Kafka's.
OTHER_DEFAULT = {
    "node.id": "Kafka has none; its sample file says 1",
    "broker.id": "unset rather than -1, which Kafka only understands with ZooKeeper",
    "listeners": "reachable from this machine only, unless asked otherwise",
    "listener.security.protocol.map": "the same pairs in another order",
    "num.network.threads": "follows the cores",
    "max.connections": "bounded",
    "max.connections.per.ip": "bounded",
    "queued.max.request.bytes": "bounded",
    "queued.max.requests": "no pool of threads to keep busy: as many as max.connections",
    "socket.listen.backlog.size": "many clients may start at once",
    "socket.receive.buffer.bytes": "the kernel sizes it as the connection needs",
    "socket.send.buffer.bytes": "the kernel sizes it as the connection needs",
    "log.dir": "beside the user rather than under /tmp",
    "group.coordinator.rebalance.protocols": "the protocols that are served",
    "offsets.topic.replication.factor": "one node",
    "transaction.state.log.min.isr": "one node",
    "transaction.state.log.replication.factor": "one node",
    "metric.reporters": "there is no JMX here",
    "broker.heartbeat.interval.ms": "a dead broker is noticed earlier",
    "broker.session.timeout.ms": "a dead broker is noticed earlier",
    "controller.quorum.auto.join.enable": "brokers become voters without a command",
    "controller.quorum.bootstrap.servers": "unset rather than empty",
    "controller.quorum.election.backoff.max.ms": "a dead controller is replaced earlier",
    "controller.quorum.fetch.timeout.ms": "a dead controller is replaced earlier",
    "controller.quorum.voters": "unset rather than empty",
    "metadata.max.idle.interval.ms": "brokers report what they have applied, without records",
    "metadata.log.segment.bytes": "snapshots replace small segments sooner",
    "sasl.enabled.mechanisms": "the mechanisms that are served",
    "sasl.server.max.receive.size": "a stranger gets less",
}

# Setting → why it can be set only at start in pybroker, although Kafka changes it at runtime.
OTHER_SCOPE = {
    "listeners": "sockets are opened once",
    "listener.security.protocol.map": "sockets are opened once",
    "num.network.threads": "connections stay with their thread",
    "sasl.enabled.mechanisms": "read with the users of its listener, once",
    "metric.reporters": "made once",
}


class Row(NamedTuple):
    """One of Kafka's settings."""

    type: str
    default: str
    scope: str
    internal: bool


@pytest.fixture(scope="module")
def tables() -> dict[str, dict[str, Row | str]]:
    """Return Kafka's tables: "broker", "topic" and "synonym"."""
    source = Path(__file__).parent / "java" / "ConfigTables.java"
    command = java_command(compiled(source, jars(BROKER)), "ConfigTables")
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    found: dict[str, dict[str, Row | str]] = {"broker": {}, "topic": {}, "synonym": {}}
    for line in done.stdout.splitlines():
        table, name, *fields = line.split("\t")
        if table == "synonym":
            found[table][name] = fields[0]
        else:
            found[table][name] = Row(fields[0], fields[1], fields[2], fields[3] == "internal")
    return found


def shown_default(key: ConfigKey) -> str:
    text = render_value(key.default)
    return "(null)" if text is None else text


def test_every_broker_setting_of_kafka_is_known(tables: dict[str, dict[str, Row]]) -> None:
    unknown = [
        name
        for name in tables["broker"]
        if name not in BROKER_SETTINGS and not is_foreign(name) and not is_of_providers(name)
    ]
    assert unknown == []


def test_what_is_ours_is_listed(tables: dict[str, dict[str, Row]]) -> None:
    assert {name for name in BROKER_SETTINGS if name not in tables["broker"]} == OURS


def test_shared_broker_settings_are_the_same(tables: dict[str, dict[str, Row]]) -> None:
    kafka = tables["broker"]
    shared = [key for name, key in BROKER_SETTINGS.items() if name in kafka]
    assert {key.name for key in shared if key.type.name != kafka[key.name].type} == set()
    assert {key.name for key in shared if key.internal != kafka[key.name].internal} == set()
    assert {key.name for key in shared if shown_default(key) != kafka[key.name].default} <= set(OTHER_DEFAULT)
    assert {key.name for key in shared if key.scope.value != kafka[key.name].scope} == set(OTHER_SCOPE)


def test_topic_settings_are_the_same(tables: dict[str, dict[str, Row]]) -> None:
    kafka = tables["topic"]
    shared = {name: key for name, key in TOPIC_SETTINGS.items() if name not in TOPIC_OWN}
    assert set(kafka) == set(shared) | set(ONLY_AS)
    assert {name: (key.type.name, shown_default(key), key.internal) for name, key in shared.items()} == {
        name: (kafka[name].type, kafka[name].default, kafka[name].internal) for name in shared
    }
    assert {name: kafka[name].default for name in ONLY_AS} == {name: value for name, (value, _) in ONLY_AS.items()}


def test_synonyms_are_the_same(tables: dict[str, dict[str, str]]) -> None:
    assert {name: tables["synonym"][name] for name in BROKER_SYNONYM} == BROKER_SYNONYM
