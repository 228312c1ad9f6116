"""Broker settings: the cluster's metadata store, and replication."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.stores import check_type
from pybroker.config.values import ConfigKey, ConfigType, InvalidValue, Scope, Value, at_least, one_of

BOOLEAN, STRING, PASSWORD = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.PASSWORD
INT, LONG = ConfigType.INT, ConfigType.LONG

LONG_MAX = 9223372036854775807

METADATA_STORE = "metadata.store"
EMBEDDED = "embedded"
ZOOKEEPER = "zookeeper"


def _store_type(value: Value) -> None:
    if value is not None:
        check_type(value)


def _user_and_password(value: Value) -> None:
    if value and ":" not in str(value):
        raise InvalidValue("expected user:password")


METADATA = (
    ConfigKey(
        METADATA_STORE,
        STRING,
        EMBEDDED,
        "Where the cluster's metadata is kept: embedded (one node, a file in the first data directory) or zookeeper (any number of brokers). Not one of Kafka's settings.",
        one_of(EMBEDDED, ZOOKEEPER),
    ),
    ConfigKey(
        "zookeeper.connect",
        STRING,
        None,
        "With metadata.store=zookeeper: the servers of the ensemble, host:port[,host:port...], and behind the last one the path below which this cluster's nodes are, as /path.",
    ),
    ConfigKey(
        "zookeeper.session.timeout.ms",
        INT,
        6000,
        "How long ZooKeeper waits for a sign of life before it takes this broker for dead (Kafka: 18000).",
        at_least(100),
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "How long the start waits for ZooKeeper. Unset: as long as zookeeper.session.timeout.ms.",
        at_least(1),
    ),
    ConfigKey(
        "zookeeper.digest",
        PASSWORD,
        None,
        "user:password by which this broker is known to ZooKeeper (its digest scheme). Not one of Kafka's settings.",
        _user_and_password,
    ),
    ConfigKey(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Nodes that brokers make in ZooKeeper can be read and changed by the user of zookeeper.digest only.",
    ),
    ConfigKey("zookeeper.ssl.client.enable", BOOLEAN, False, "Connect to ZooKeeper under TLS."),
    ConfigKey(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        "File with the certificates that ZooKeeper's certificate must come from. Unset: those of the system.",
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.type",
        STRING,
        None,
        "PEM, JKS or PKCS12; unset: what the file is. PEM is read at each connection, the others at the start.",
        _store_type,
    ),
    ConfigKey("zookeeper.ssl.truststore.password", PASSWORD, None, "Password of a truststore that is not PEM."),
    ConfigKey(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        "File with this broker's certificate for ZooKeeper and its private key.",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.type", STRING, None, "PEM, JKS or PKCS12; unset: what the file is.", _store_type
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.password", PASSWORD, None, "Password of zookeeper.ssl.keystore.location, or of its PEM key."
    ),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "HTTPS: the certificate must be for the host that was connected to. Empty: any host's will do.",
        one_of("HTTPS", ""),
    ),
)

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only replica selector, under its name in Kafka."""

REPLICATION = (
    ConfigKey(
        "replica.lag.time.max.ms",
        LONG,
        30000,
        "A follower that has been behind its leader for so long leaves the set of those in sync.",
        at_least(1),
    ),
    ConfigKey(
        "num.replica.fetchers",
        INT,
        1,
        "Threads that copy from each leader; the partitions of a topic are spread over them.",
        at_least(1),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a leader may hold a follower's fetch back when there is nothing new.",
        at_least(0),
    ),
    ConfigKey("replica.fetch.min.bytes", INT, 1, "A leader answers a follower's fetch when so much is there.", at_least(1)),
    ConfigKey(
        "replica.fetch.max.bytes", INT, 1048576, "Bytes that a follower asks for of each partition.", at_least(1)
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes", INT, 10485760, "Bytes that a follower asks for in one fetch.", at_least(1)
    ),
    ConfigKey(
        "replica.fetch.backoff.ms", INT, 1000, "How long a follower waits after a partition's fetch has failed.", at_least(0)
    ),
    ConfigKey(
        "replica.socket.timeout.ms",
        INT,
        30000,
        "How long a follower waits for its leader's answer before it connects anew.",
        at_least(1),
    ),
    ConfigKey(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes a second that this broker sends to replicas that are not in sync, of those that their topics' leader.replication.throttled.replicas name (KIP-73).",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes a second that this broker copies of replicas that are behind, of those that their topics' follower.replication.throttled.replicas name (KIP-73).",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes a second that this broker copies when partitions move between its log directories (KIP-113).",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.selector.class",
        STRING,
        None,
        f"Which replica a consumer is told to read from (KIP-392): {RACK_AWARE} names one in sync in the consumer's rack "
        "(client.rack, broker.rack). Unset: the leader.",
        one_of("", RACK_AWARE),
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether a broker that stops first has others take over what it leads.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries", INT, 3, "How often it asks again, when the controller cannot be reached.", at_least(0)
    ),
    ConfigKey(
        "controlled.shutdown.retry.backoff.ms", LONG, 5000, "How long it waits in between.", at_least(0)
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether preferred leaders lead again by themselves when they are back in sync.",
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller looks whether preferred leaders lead.",
        at_least(1),
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "Preferred leaders come back when a broker does not lead more than this part of the partitions that it is preferred for.",
        at_least(0),
    ),
)
