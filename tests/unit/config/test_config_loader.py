"""Files and assignments: precedence, Kafka's sample files, and one precise line for each mistake."""

# ruff: noqa: E501  (a complaint is one line, here too)
from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker.config import ConfigError, ConfigSource, load_config

# The settings in Apache Kafka 4.4's own config/server.properties.
KAFKA_4_SAMPLE = """
# Licensed to nobody: only keys and values
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
#log.flush.interval.ms=1000
log.retention.hours=168
#log.retention.bytes=1073741824
#log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

# A file of Kafka 3.9 for ZooKeeper, without its line with ZooKeeper's address.
KAFKA_3_SAMPLE = """
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "server.properties"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_defaults() -> None:
    config, warnings = load_config()
    assert warnings == []
    assert config.broker_id == 1
    assert config.log_dirs == (os.path.abspath("pybroker-data"),)
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config["log.flush.mode"] == "commit"
    assert config["delete.topic.delay.ms"] == 14_400_000


def test_kafka_4_sample_file_is_accepted_with_two_warnings(tmp_path: Path) -> None:
    config, warnings = load_config(written(tmp_path, KAFKA_4_SAMPLE))
    exposed, without_effect = warnings
    assert exposed.startswith("Listeners reachable from other machines without authentication: PLAINTEXT://:9092; ")
    assert "num.io.threads" in without_effect
    assert "process.roles" in without_effect
    assert config["num.io.threads"] == 8, "shown as it was given"
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://:9092"], "the controller's listener is not opened"
    assert [str(one) for one in config.advertised_listeners([("PLAINTEXT", "0.0.0.0", 9092)])] == [
        "PLAINTEXT://localhost:9092"
    ]
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config["num.network.threads"] == 3


def test_kafka_3_sample_file_without_zookeeper_is_accepted(tmp_path: Path) -> None:
    config, warnings = load_config(written(tmp_path, KAFKA_3_SAMPLE))
    assert config.broker_id == 0
    assert "num.io.threads" in warnings[0]


def test_assignments_go_over_settings_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "num.partitions=2\ndefault.replication.factor=1\nlog.retention.hours=1\n")
    config, _ = load_config(file, ["num.partitions=4"], {"num.partitions": 3, "log.retention.hours": 2})
    assert config["num.partitions"] == 4
    assert config["log.retention.hours"] == 2
    assert config.layer(ConfigSource.STATIC_BROKER_CONFIG)["default.replication.factor"] == "1"


def test_properties_syntax(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "! a comment\nnum.partitions : 7\nlog.dirs=/tmp/a,\\\n   /tmp/b\nbroker.rack=caf\\u00e9\nbroker.rack=last\n",
    )
    config, _ = load_config(file)
    assert config["num.partitions"] == 7
    assert config.log_dirs == ("/tmp/a", "/tmp/b")
    assert config["broker.rack"] == "last"


KRAFT = (
    "node.id=1\nlisteners=P://:1,C://:2\ncontroller.quorum.voters=1@a:2,2@b:2,3@c:2\n"
    "listener.security.protocol.map=P:PLAINTEXT,C:PLAINTEXT\ncontroller.listener.names=C"
)
CLUSTER = "metadata.store=zookeeper\nzookeeper.connect=zk:2181"
MISTAKES = [
    ("num.partition=3", "num.partition ({file} line 2): unknown setting; did you mean num.partitions?"),
    ("num.partitions=many", "num.partitions=many ({file} line 2): expected a whole number"),
    ("num.partitions=0", "num.partitions=0 ({file} line 2): must be at least 1"),
    (
        "log.retention.ms=7 weeks",
        "log.retention.ms=7 weeks ({file} line 2): expected a whole number (valid units: ms, s, m, h, d)",
    ),
    (
        "delete.topic.delay.ms=9223372036854775807",
        "delete.topic.delay.ms=9223372036854775807 ({file} line 2): must be between 0 and 3153600000000",
    ),
    (
        "shutdown.timeout.ms=9223372036854775807",
        "shutdown.timeout.ms=9223372036854775807 ({file} line 2): must be between 0 and 3153600000000",
    ),
    (
        "ingest.ttl.max.ms=9223372036854775807",
        "ingest.ttl.max.ms=9223372036854775807 ({file} line 2): must be between 1 and 3153600000000",
    ),
    ("log.flush.mode=sometimes", "log.flush.mode=sometimes ({file} line 2): must be one of commit, os"),
    ("listeners=", "listeners= ({file} line 2): must not be empty"),
    (
        "listeners=PLAINTEXT://:1,",
        "listeners=PLAINTEXT://:1, ({file} line 2): must not have an empty entry (two commas, or one at the beginning or end)",
    ),
    (
        "listeners=PLAINTEXT://h:99999",
        "listeners=PLAINTEXT://h:99999 ({file} line 2): expected host:port with a port between 0 and 65535",
    ),
    (
        "listeners=OTHER://:1",
        "listeners=OTHER://:1 ({file} line 2): listener OTHER has no entry in listener.security.protocol.map",
    ),
    (
        "listeners=SSL://:1",
        "listeners=SSL://:1 ({file} line 2): listener SSL uses SSL: it requires a certificate: set ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain",
    ),
    (
        "listeners=PLAINTEXT://::1:1",
        "listeners=PLAINTEXT://::1:1 ({file} line 2): an IPv6 address must be in brackets, such as [::1]:9092",
    ),
    (
        "advertised.listeners=PLAINTEXT://0.0.0.0:1",
        "advertised.listeners=PLAINTEXT://0.0.0.0:1 ({file} line 2): clients cannot connect to 0.0.0.0; use the host name or address of this broker",
    ),
    (
        "advertised.listeners=SSL://h:1",
        "advertised.listeners=SSL://h:1 ({file} line 2): listener SSL is not in listeners",
    ),
    (
        "listener.security.protocol.map=A:B",
        "listener.security.protocol.map=A:B ({file} line 2): 'B' is not a security protocol (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)",
    ),
    ("log.dirs=/a,,/b", "log.dirs=/a,,/b ({file} line 2): an empty directory name between two commas"),
    ("log.dirs=", "log.dirs= ({file} line 2): no directory given; add one or remove the line"),
    ("log.dirs=/a,/a", "log.dirs=/a,/a ({file} line 2): a directory is listed twice"),
    ("inter.broker.listener.name=X", "inter.broker.listener.name=X ({file} line 2): not in listeners"),
    (
        "metrics.listener=9404",
        "metrics.listener=9404 ({file} line 2): expected host:port with a port between 0 and 65535",
    ),
    (
        "max.connections.per.ip.overrides=h",
        "max.connections.per.ip.overrides=h ({file} line 2): expected address:count, found 'h'",
    ),
    (
        "group.consumer.assignment.interval.ms=15001",
        "group.consumer.assignment.interval.ms=15001 ({file} line 2): above group.consumer.max.assignment.interval.ms",
    ),
    (
        "group.share.session.timeout.ms=44999",
        "group.share.session.timeout.ms=44999 ({file} line 2): below group.share.min.session.timeout.ms",
    ),
    (
        "group.streams.num.standby.replicas=3",
        "group.streams.num.standby.replicas=3 ({file} line 2): above group.streams.max.standby.replicas",
    ),
    (
        "group.streams.heartbeat.interval.ms=46000\ngroup.streams.max.heartbeat.interval.ms=46000",
        "group.streams.heartbeat.interval.ms=46000 ({file} line 2): must be below group.streams.session.timeout.ms",
    ),
    (
        "group.min.session.timeout.ms=1800001",
        "group.min.session.timeout.ms=1800001 ({file} line 2): above group.max.session.timeout.ms",
    ),
    (
        "zookeeper.connect=zk:2181",
        "zookeeper.connect=zk:2181 ({file} line 2): this broker keeps its metadata in its first data directory; "
        "remove the line, or make it join a cluster with metadata.store=zookeeper and a listener for brokers "
        "(inter.broker.listener.name)",
    ),
    (
        "metadata.store=zookeeper\nlisteners=PLAINTEXT://:1,R://127.0.0.1:2\ninter.broker.listener.name=R\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,R:PLAINTEXT",
        "metadata.store=zookeeper ({file} line 2): zookeeper.connect is missing; add zookeeper.connect=host:port",
    ),
    (
        "metadata.store=zookeeper\nzookeeper.connect=zk:2181",
        "metadata.store=zookeeper ({file} line 2): brokers require a listener of their own that serves no clients; "
        "add one to listeners and listener.security.protocol.map, such as REPLICATION://host:port and "
        "REPLICATION:PLAINTEXT, and set inter.broker.listener.name=REPLICATION",
    ),
    (
        CLUSTER + "\nlisteners=PLAINTEXT://:9092,REPLICATION://:9093\ninter.broker.listener.name=REPLICATION\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:SASL_PLAINTEXT",
        "inter.broker.listener.name=REPLICATION ({file} line 5): sasl.mechanism.inter.broker.protocol=GSSAPI: "
        "unsupported for brokers; use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
    ),
    (
        CLUSTER + "\nlisteners=PLAINTEXT://:9092,REPLICATION://:9093\ninter.broker.listener.name=REPLICATION\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "inter.broker.listener.name=REPLICATION ({file} line 5): every client that connects to "
        "REPLICATION://:9093 can act as a broker, although an authorizer is configured; map it to SSL and set ssl.client.auth=required, map it to "
        "SASL_SSL or SASL_PLAINTEXT and set sasl.mechanism.inter.broker.protocol, or give it a loopback address",
    ),
    (
        CLUSTER + "\nlisteners=SASL_PLAINTEXT://:9092,REPLICATION://:9093\ninter.broker.listener.name=REPLICATION\n"
        "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,REPLICATION:PLAINTEXT",
        "inter.broker.listener.name=REPLICATION ({file} line 5): every client that connects to "
        "REPLICATION://:9093 can act as a broker, although clients must log in; map it to SSL and set ssl.client.auth=required, map it to "
        "SASL_SSL or SASL_PLAINTEXT and set sasl.mechanism.inter.broker.protocol, or give it a loopback address",
    ),
    (
        "process.roles=controller",
        "process.roles=controller ({file} line 2): broker and controller run in one process; use broker,controller or remove the line",
    ),
    (
        "controller.quorum.voters=1@a:1,2@b:1",
        "controller.quorum.voters=1@a:1,2@b:1 ({file} line 2): a single broker has no other voters; set metadata.store=quorum, or remove the line",
    ),
    (
        "node.id=2\ncontroller.quorum.voters=1@a:1\ncontroller.listener.names=C",
        "controller.quorum.voters=1@a:1 ({file} line 3): the voter is another node, and this is node 2; remove the line, or set metadata.store=quorum and inter.broker.listener.name=C, the listener of the voters",
    ),
    (
        KRAFT,
        "controller.quorum.voters=1@a:2,2@b:2,3@c:2 ({file} line 4): a single broker has no other voters; set metadata.store=quorum and inter.broker.listener.name=C, the listener of the voters, or remove the line",
    ),
    (
        KRAFT + "\nmetadata.store=quorum",
        "metadata.store=quorum ({file} line 7): brokers require a listener of their own that serves no clients; set inter.broker.listener.name=C",
    ),
    (
        KRAFT.replace("P://:1", "P://:1,B://:3").replace("P:PLAINTEXT", "P:PLAINTEXT,B:PLAINTEXT")
        + "\nmetadata.store=quorum\ninter.broker.listener.name=B",
        "controller.quorum.voters=1@a:2,2@b:2,3@c:2 ({file} line 4): port 2 of node 1 is that of the listener C, and brokers use B (inter.broker.listener.name); let the voters have the addresses of that listener, or set inter.broker.listener.name=C",
    ),
    (
        "config.provider=env",
        "config.provider ({file} line 2): unknown setting; did you mean config.providers?",
    ),
    (
        "authorizer.class.name=a.B",
        "authorizer.class.name=a.B ({file} line 2): custom authorizers are not supported; use org.apache.kafka.metadata.authorizer.StandardAuthorizer or kafka.security.authorizer.AclAuthorizer",
    ),
    (
        "create.topic.policy.class.name=a.B",
        "create.topic.policy.class.name=a.B ({file} line 2): Java classes are not supported; remove the line",
    ),
    (
        "remote.log.storage.system.enable=true",
        "remote.log.storage.system.enable=true ({file} line 2): tiered storage is not supported; remove the line",
    ),
    (
        "listeners=SSL://:1\nssl.keystore.key=k\nssl.keystore.certificate.chain=c",
        "listeners=SSL://:1 ({file} line 2): listener SSL uses SSL: ssl.keystore.key is PEM, and ssl.keystore.type=JKS; set ssl.keystore.type=PEM",
    ),
    (
        "listeners=SSL://:1\nlistener.name.ssl.ssl.keystore.key=hunter2\nssl.keystore.location=/k",
        "listeners=SSL://:1 ({file} line 2): listener SSL uses SSL: ssl.keystore.location and ssl.keystore.key are both set; remove one of them",
    ),
    (
        "listeners=SSL://:1\nssl.keystore.location=/k\nssl.keystore.type=PEM\nssl.client.auth=required",
        "listeners=SSL://:1 ({file} line 2): listener SSL uses SSL: ssl.client.auth=required requires ssl.truststore.location or ssl.truststore.certificates to verify clients' certificates",
    ),
    (
        "listener.name.ssl.ssl.enabled.protocols=TLSv1.1",
        "listener.name.ssl.ssl.enabled.protocols=TLSv1.1 ({file} line 2): TLSv1.1 is not supported; this broker supports TLSv1.2, TLSv1.3",
    ),
    (
        "ssl.client.auth=maybe",
        "ssl.client.auth=maybe ({file} line 2): must be one of required, requested, none",
    ),
    (
        "listener.name.internal.ssl.keystore.type=BKS",
        "listener.name.internal.ssl.keystore.type=BKS ({file} line 2): must be one of PEM, JKS, PKCS12",
    ),
    (
        "listener.name.plaintext.plain.sasl.server.callback.handler.class=a.B",
        "listener.name.plaintext.plain.sasl.server.callback.handler.class=a.B ({file} line 2): Java classes are not supported; remove the line",
    ),
    (
        "listener.name.plaintext.max.connections=10",
        "listener.name.plaintext.max.connections=10 ({file} line 2): max.connections applies to all listeners together; remove the line",
    ),
    (
        "cordoned.log.dirs=/a",
        "cordoned.log.dirs=/a ({file} line 2): /a is not in log.dirs",
    ),
    (
        "ssl.keystore.locatio=x",
        "ssl.keystore.locatio ({file} line 2): unknown setting; did you mean ssl.keystore.location?",
    ),
    (
        "listener.name.plaintext.sasl.jass.config=x",
        "listener.name.plaintext.sasl.jass.config ({file} line 2): looks like a security setting, but this broker does not support it; see docs/security.md for supported settings, or remove the line",
    ),
    (
        "listener.name.plaintext.plain.sasl.jass.config=x",
        "listener.name.plaintext.plain.sasl.jass.config ({file} line 2): unknown setting; did you mean listener.name.plaintext.plain.sasl.jaas.config?",
    ),
    (
        "security.protocol=SASL_SSL",
        "security.protocol ({file} line 2): looks like a security setting, but this broker does not support it; configure each listener instead: listeners, listener.security.protocol.map",
    ),
    ("lisetners=PLAINTEXT://:1", "lisetners ({file} line 2): unknown setting; did you mean listeners?"),
    ("brokr.id=7", "brokr.id ({file} line 2): unknown setting; did you mean broker.id?"),
    (
        "security.inter.broker.protocol=TLS",
        "security.inter.broker.protocol=TLS ({file} line 2): must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    (
        "zookeeper.metadata.migration.enable=true",
        "zookeeper.metadata.migration.enable=true ({file} line 2): stop all brokers and move with `pybroker metadata migrate --from zookeeper --to quorum`; remove the line",
    ),
    (
        CLUSTER + "\nlisteners=PLAINTEXT://:9092,REPLICATION://:9093\ninter.broker.listener.name=REPLICATION\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
        "security.inter.broker.protocol=PLAINTEXT ({file} line 7): conflicts with inter.broker.listener.name=REPLICATION; "
        "remove one of the two",
    ),
    (
        CLUSTER
        + "\nlisteners=PLAINTEXT://:9092,B://:9093\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT\n"
        "security.inter.broker.protocol=SSL",
        "security.inter.broker.protocol=SSL ({file} line 6): no listener has this name; set "
        "inter.broker.listener.name to the listener of brokers",
    ),
    (
        "config.providers=vault\nconfig.providers.vault.class=com.example.Vault",
        "config.providers=vault ({file} line 2): config.providers.vault.class=com.example.Vault; this broker supports "
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider, "
        "org.apache.kafka.common.config.provider.FileConfigProvider, "
        "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    ),
    (
        "config.providers=vault\nnum.partitions=${vault:a:b}",
        "config.providers=vault ({file} line 2): config.providers.vault.class is missing; this broker supports "
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider, "
        "org.apache.kafka.common.config.provider.FileConfigProvider, "
        "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    ),
    ("broker.rack=\\u12", "{file} line 2: a \\u must be followed by four hexadecimal digits"),
    (
        "log.cleaner.min.compaction.lag.ms=10\nlog.cleaner.max.compaction.lag.ms=5",
        "min.compaction.lag.ms=10 must not be above max.compaction.lag.ms=5",
    ),
    ("node.id=1\nbroker.id=2", "broker.id=2 ({file} line 3): conflicts with node.id=1; remove one of the two"),
]


@pytest.mark.parametrize(("text", "complaint"), MISTAKES, ids=[text.split("\n")[0] for text, _ in MISTAKES])
def test_mistakes_get_one_precise_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = written(tmp_path, f"# first line\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value) == complaint.replace("{file}", str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\xfe\x00", "not a text file"),
        (b"#" * (1 << 21), "not a settings file"),
        (None, "No such file or directory"),
    ],
    ids=["binary", "huge", "absent"],
)
def test_unusable_files(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "server.properties" if content is None else written(tmp_path, content)
    with pytest.raises(ConfigError, match=complaint):
        load_config(file)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """This includes problems of several settings together; no problem is a consequence of another one."""
    text = (
        "num.partitions=many\nbroker.rack=\\u12\nnum.networks.threads=3\nlisteners=NOPE\n"
        "advertised.listeners=OTHER://h:1\nlog.dirs=/a,/a\nlog.retention.check.interval.ms=0\n"
        "authorizer.class.name=com.example.A\nssl.keystore.passwort=hunter2\nnode.id=1\nbroker.id=2\n"
    )
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, ["oops"])
    assert [problem.replace(f"{file} ", "").partition(":")[0] for problem in caught.value.problems] == [
        "line 2",
        "--set oops",
        "num.partitions=many (line 1)",
        "num.networks.threads (line 3)",
        "log.retention.check.interval.ms=0 (line 7)",
        "authorizer.class.name=com.example.A (line 8)",
        "ssl.keystore.passwort (line 9)",
        "listeners=NOPE (line 4)",
        "broker.id=2 (line 11)",
        "advertised.listeners=OTHER",
        "log.dirs=/a,/a (line 6)",
    ]
    assert "hunter2" not in str(caught.value)


def test_bad_listeners_hide_no_problem_of_the_store(tmp_path: Path) -> None:
    text = (
        "listeners=PLAINTEXT://:1,\nadvertised.listeners=PLAINTEXT://0.0.0.0:1\nzookeeper.connect=zk:2181\n"
        "controller.quorum.voters=1@a:1,2@b:1\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text))
    assert [problem.partition("=")[0] for problem in caught.value.problems] == [
        "listeners",
        "advertised.listeners",
        "controller.quorum.voters",
        "zookeeper.connect",
    ]


def test_missing_keystores_are_reported_with_the_other_problems(tmp_path: Path) -> None:
    text = (
        "listeners=A://:1,B://:2\nlistener.security.protocol.map=A:SSL,B:SSL\nssl.keystore.location=/none/k\n"
        "ssl.truststore.location=/none/t\nlistener.name.b.ssl.client.auth=required\nnum.partitions=0\n"
    )
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, stores=True)
    assert caught.value.problems == (
        f"num.partitions=0 ({file} line 6): must be at least 1",
        "listeners A, B: ssl.keystore.location=/none/k: No such file or directory",
        "listener B: ssl.truststore.location=/none/t: No such file or directory",
    )


def test_brokers_of_a_quorum_use_the_listener_of_kafkas_controllers(tmp_path: Path) -> None:
    """In a file for Kafka, the voters have the addresses of that listener."""
    text = f"{KRAFT}\nmetadata.store=quorum\ninter.broker.listener.name=c\n"
    config, _ = load_config(written(tmp_path, text))
    assert [str(listener) for listener in config.listeners] == ["P://:1", "C://:2"]
    assert config.between_brokers == "C"


def test_protection_that_is_off_and_log4js_directory_are_ignored() -> None:
    given = ["kerberos.auth.enable=false", "logs.dir=/var/log/kafka", "log.dir=/data"]
    _, warnings = load_config(None, given)
    assert warnings == [
        "Settings that this broker ignores: from other products: logs.dir; unknown to this broker and to Apache Kafka: "
        "kerberos.auth.enable"
    ]
    with pytest.raises(ConfigError, match="looks like a security setting"):
        load_config(None, ["kerberos.auth.enable=true"])


def test_settings_of_others_and_of_the_past_are_ignored_with_one_warning() -> None:
    given = ["confluent.support.metrics.enable=true", "rsm.config.fetch.chunk.cache.class=x", "port=9092"]
    given += ["quota.producer.default=1", "max.partition.fetch.bytes=1", "retention.ms=5"]
    config, warnings = load_config(None, given)
    assert config["listeners"] == ("PLAINTEXT://127.0.0.1:9092",)
    assert warnings == [
        "Settings that this broker ignores: from earlier releases of Apache Kafka: port (now listeners), "
        "quota.producer.default (now pybroker quotas); from other products: confluent.support.metrics.enable, "
        "rsm.config.fetch.chunk.cache.class; unknown to this broker and to Apache Kafka: max.partition.fetch.bytes, "
        "retention.ms (a topic setting; the broker setting is log.retention.ms)"
    ]


@pytest.mark.parametrize(
    "content",
    [
        "# Prüfstand\nnode.id=7".encode("latin-1"),
        b"\xef\xbb\xbfnode.id=7\r\nbroker.rack=a",
        b"\xef\xbb\xbf# x\nnode.id=7",
    ],
    ids=["latin-1", "BOM", "BOM before a comment"],
)
def test_encodings(tmp_path: Path, content: bytes) -> None:
    config, warnings = load_config(written(tmp_path, content))
    assert (config.broker_id, warnings) == (7, [])


def test_text_is_utf_8_where_it_can_be(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "broker.rack=café".encode())).config["broker.rack"] == "café"
    assert load_config(written(tmp_path, "broker.rack=café".encode("latin-1"))).config["broker.rack"] == "café"


def test_an_empty_zookeeper_connect_is_unset() -> None:
    assert not load_config(None, ["zookeeper.connect="]).config.in_cluster


def test_security_inter_broker_protocol_names_the_listener_of_brokers() -> None:
    given = [*CLUSTER.split("\n"), "listeners=PLAINTEXT://127.0.0.1:1,B://127.0.0.1:2"]
    given += [
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
        "zookeeper.metadata.migration.enable=false",
    ]
    config, _ = load_config(None, [*given, "security.inter.broker.protocol=PLAINTEXT"])
    assert config.between_brokers == "PLAINTEXT"


def test_two_listeners_may_be_behind_one_address() -> None:
    given = ["listeners=A://127.0.0.1:1,B://127.0.0.1:2", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"]
    config, _ = load_config(None, [*given, "advertised.listeners=A://lb:9092,B://lb:9092"])
    bound = [("A", "127.0.0.1", 1), ("B", "127.0.0.1", 2)]
    assert [str(one) for one in config.advertised_listeners(bound)] == ["A://lb:9092", "B://lb:9092"]


@pytest.mark.parametrize("assignment", ["num.partitions", "=3", ""])
def test_malformed_assignment(assignment: str) -> None:
    with pytest.raises(ConfigError, match="expected key=value"):
        load_config(None, [assignment])


@pytest.mark.parametrize(
    "harmless",
    [
        "authorizer.class.name=",
        "remote.log.storage.system.enable=false",
        "security.inter.broker.protocol=PLAINTEXT",
        "controller.quorum.voters=1@localhost:9093",
        "ssl.client.auth=none",
        "listener.name.internal.ssl.endpoint.identification.algorithm=",
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "max.decompressed.message.bytes=2147483639",
        "log.cleaner.io.buffer.size=1000000",
        "listener.name.internal.scram-sha-256.sasl.jaas.config=hunter2",
        "broker.id=-1",
    ],
)
def test_harmless_settings_of_kafka(harmless: str) -> None:
    config, warnings = load_config(None, [harmless])
    assert config.broker_id == 1
    assert not any("hunter2" in warning for warning in warnings), "values are not logged"


@pytest.mark.parametrize(
    ("settings", "in_force", "warning"),
    [
        (
            {"default.replication.factor": 3, "min.insync.replicas": 2, "offsets.topic.replication.factor": 3},
            (1, 1, 1),
            "default.replication.factor=3, min.insync.replicas=2, offsets.topic.replication.factor=3: a single broker "
            "keeps one replica of each partition, so the effective value is 1 for each",
        ),
        (
            {"min.insync.replicas": 2},
            (1, 1, 1),
            "min.insync.replicas=2: a single broker keeps one replica of each partition, so the effective value is 1",
        ),
        ({"default.replication.factor": 1, "min.insync.replicas": 1}, (1, 1, 1), None),
    ],
)
def test_a_file_for_several_brokers_is_cut_to_one(
    settings: dict[str, object], in_force: tuple[int, int, int], warning: str | None
) -> None:
    config, warnings = load_config(None, (), settings)
    names = ("default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor")
    assert tuple(config[name] for name in names) == in_force
    assert warnings == ([warning] if warning else [])


@pytest.mark.parametrize(
    ("listeners", "settings", "warned"),
    [
        ("PLAINTEXT://127.0.0.1:9092,B://[::1]:9093,C://localhost:9094", (), None),
        ("PLAINTEXT://127.0.0.1:9092,B://0.0.0.0:9093,C://:9094", (), ": B://0.0.0.0:9093, C://:9094; every"),
        ("PLAINTEXT://broker.example:9092", (), "may do everything"),
        (
            "PLAINTEXT://[::]:9092",
            ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",),
            "has the rights of User:ANONYMOUS",
        ),
        ("S://0.0.0.0:9092", (), None),
    ],
)
def test_who_listens_beyond_this_machine_without_authentication_is_told(
    listeners: str, settings: tuple[str, ...], warned: str | None
) -> None:
    protocols = "PLAINTEXT:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,S:SASL_PLAINTEXT"
    _, warnings = load_config(
        None, [f"listeners={listeners}", f"listener.security.protocol.map={protocols}", *settings]
    )
    exposed = [warning for warning in warnings if "reachable from other machines" in warning]
    assert len(exposed) == (0 if warned is None else 1)
    assert warned is None or warned in exposed[0]
