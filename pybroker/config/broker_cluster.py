"""Broker settings: the cluster's metadata store, and replication."""

from __future__ import annotations

from pybroker.config.listener_addresses import host_port, parse_voters
from pybroker.config.setting_values import ConfigKey, ConfigType, InvalidValue, Scope, Value, at_least, one_of
from pybroker.config.stores import check_type

BOOLEAN, STRING, PASSWORD = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.PASSWORD
INT, LIST, LONG = ConfigType.INT, ConfigType.LIST, ConfigType.LONG

LONG_MAX = 9223372036854775807

METADATA_STORE = "metadata.store"
BOOTSTRAP = "controller.quorum.bootstrap.servers"
EMBEDDED = "embedded"
ZOOKEEPER = "zookeeper"
QUORUM = "quorum"
SHARED = (ZOOKEEPER, QUORUM)
"""The metadata stores that several brokers can share."""


def _voters(value: Value) -> None:
    if value is not None:
        assert isinstance(value, tuple)
        parse_voters(value)


def _addresses(value: Value) -> None:
    if value is not None:
        assert isinstance(value, tuple)
        for item in value:
            host_port(item)


def _odd(value: Value) -> None:
    if not (isinstance(value, int) and value > 0 and value % 2):
        raise InvalidValue("expected 1, 3, 5 or another odd number")


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
        (
            "Store of the cluster's metadata: embedded (one node, a file in the first data directory), zookeeper (any "
            "number of brokers), or quorum (any number of brokers, without ZooKeeper; not for production yet). Not one "
            "of Kafka's settings."
        ),
        one_of(EMBEDDED, ZOOKEEPER, QUORUM),
    ),
    ConfigKey(
        "controller.quorum.voters",
        LIST,
        None,
        (
            "With metadata.store=quorum: the voters of the metadata log as id@host:port[,id@host:port...], with the "
            "addresses of their listeners for brokers."
        ),
        _voters,
    ),
    ConfigKey(
        BOOTSTRAP,
        LIST,
        None,
        (
            "With metadata.store=quorum: the addresses (host:port) of some brokers' listeners for brokers. A broker "
            "that starts for the first time joins their cluster. Without this setting and controller.quorum.voters it "
            "makes a new cluster."
        ),
        _addresses,
    ),
    ConfigKey(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        True,
        (
            "With metadata.store=quorum: this broker becomes a voter of the metadata log when there are fewer than "
            "controller.quorum.voters.target, or when its own voter has another directory (Kafka: false). If "
            "controller.quorum.voters is set, only the brokers in it become voters by themselves."
        ),
    ),
    ConfigKey(
        "controller.quorum.voters.target",
        INT,
        3,
        (
            "With metadata.store=quorum: the number of voters up to which the leader promotes brokers. An odd number: "
            "2 of 3, or 3 of 5, suffice. Not one of Kafka's settings."
        ),
        _odd,
    ),
    ConfigKey(
        "broker.heartbeat.interval.ms",
        INT,
        500,
        "With metadata.store=quorum: time between two heartbeats to the controller, in ms (Kafka: 2000).",
        at_least(1),
    ),
    ConfigKey(
        "broker.session.timeout.ms",
        INT,
        3000,
        (
            "With metadata.store=quorum: the controller fences a broker that sends no heartbeat for this time, in ms "
            "(Kafka: 9000)."
        ),
        at_least(100),
    ),
    ConfigKey(
        "controller.quorum.election.timeout.ms",
        INT,
        1000,
        "With metadata.store=quorum: time that a voter waits for a leader before it starts an election, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms",
        INT,
        1000,
        (
            "With metadata.store=quorum: a voter starts an election if it cannot fetch from the leader for this time, "
            "in ms (Kafka: 2000)."
        ),
        at_least(1),
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms",
        INT,
        100,
        "With metadata.store=quorum: the longest pause before the next election, in ms (Kafka: 1000).",
        at_least(1),
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20 << 20,
        (
            "With metadata.store=quorum: a snapshot of the metadata is written after this many bytes of records in the "
            "metadata log."
        ),
        at_least(1),
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        (
            "With metadata.store=quorum: a snapshot is written at the latest this long after the first record that the "
            "previous one does not have, in ms; 0: only by size."
        ),
        at_least(0),
    ),
    ConfigKey(
        "metadata.log.segment.bytes",
        INT,
        8 << 20,
        "With metadata.store=quorum: size of a segment of the metadata log, in bytes (Kafka: 1073741824).",
        at_least(4096),
    ),
    ConfigKey(
        "metadata.log.segment.ms",
        LONG,
        604_800_000,
        (
            "With metadata.store=quorum: a record begins another segment of the metadata log if the first record of "
            "the last one is older than this, in ms."
        ),
        at_least(1),
    ),
    ConfigKey(
        "metadata.log.dir",
        STRING,
        None,
        (
            "With metadata.store=quorum: the directory with the metadata log; one of log.dirs. Unset: the first of "
            "log.dirs."
        ),
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        LONG,
        100 << 20,
        (
            "With metadata.store=quorum: old snapshots and segments of the metadata log are removed while all of them "
            "are larger than this, in bytes; -1: no limit. The two newest snapshots and the segments since the older "
            "one stay in any case."
        ),
        at_least(-1),
    ),
    ConfigKey(
        "metadata.max.retention.ms",
        LONG,
        604_800_000,
        (
            "With metadata.store=quorum: snapshots of the metadata log that are older than this are removed, with the "
            "segments that only they need, in ms; -1: no limit. The two newest snapshots stay in any case."
        ),
        at_least(-1),
    ),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        INT,
        0,
        (
            "With metadata.store=quorum: if nothing changes for this time, the controller appends a record without "
            "effect to the metadata log, in ms; 0: never (Kafka: 500)."
        ),
        at_least(0),
    ),
    ConfigKey(
        "zookeeper.connect",
        STRING,
        None,
        (
            "With metadata.store=zookeeper: the ZooKeeper servers as host:port[,host:port...], optionally followed by "
            "the path of this cluster (/path)."
        ),
    ),
    ConfigKey(
        "zookeeper.session.timeout.ms",
        INT,
        6000,
        "ZooKeeper session timeout of this broker, in ms (Kafka: 18000).",
        at_least(100),
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "Time that the start waits for ZooKeeper, in ms. Unset: zookeeper.session.timeout.ms.",
        at_least(1),
    ),
    ConfigKey(
        "zookeeper.digest",
        PASSWORD,
        None,
        "Credentials of this broker at ZooKeeper (digest scheme), as user:password. Not one of Kafka's settings.",
        _user_and_password,
    ),
    ConfigKey(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Restrict ZooKeeper nodes that brokers create to the user of zookeeper.digest.",
    ),
    ConfigKey("zookeeper.ssl.client.enable", BOOLEAN, False, "Connect to ZooKeeper under TLS."),
    ConfigKey(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        "File with the CA certificates for ZooKeeper's certificate. Unset: those of the system.",
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.type",
        STRING,
        None,
        (
            "PEM, JKS or PKCS12; unset: detected from the file. PEM files are read at each connection, the "
            "others at the start."
        ),
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
        "zookeeper.ssl.keystore.type", STRING, None, "PEM, JKS or PKCS12; unset: detected from the file.", _store_type
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        "Password of zookeeper.ssl.keystore.location, or of its PEM key.",
    ),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "HTTPS: ZooKeeper's certificate must match the host name. Empty: no check of the host name.",
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
        "Time after which a follower that lags behind its leader leaves the ISR, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "num.replica.fetchers",
        INT,
        1,
        "Fetcher threads per leader; the partitions of a topic are spread over them.",
        at_least(1),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "Longest time that a leader delays a follower's fetch without new records, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        INT,
        1,
        "Bytes that must be available before a leader answers a follower's fetch.",
        at_least(1),
    ),
    ConfigKey("replica.fetch.max.bytes", INT, 1048576, "Bytes that a follower requests per partition.", at_least(1)),
    ConfigKey(
        "replica.fetch.response.max.bytes", INT, 10485760, "Bytes that a follower requests per fetch.", at_least(1)
    ),
    ConfigKey(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        "Pause of a follower after a failed fetch of a partition, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "replica.socket.timeout.ms",
        INT,
        30000,
        "Time after which a follower reconnects to a leader that does not respond, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        (
            "Bytes per second that this broker sends to out-of-sync replicas listed in "
            "leader.replication.throttled.replicas of their topics (KIP-73)."
        ),
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        (
            "Bytes per second that this broker fetches for lagging replicas listed in "
            "follower.replication.throttled.replicas of their topics (KIP-73)."
        ),
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes per second that this broker copies when partitions move between its log directories (KIP-113).",
        at_least(0),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "replica.selector.class",
        STRING,
        None,
        (
            f"Selects the replica that a consumer reads from (KIP-392): {RACK_AWARE} selects an in-sync replica in the "
            "consumer's rack (client.rack, broker.rack). Unset: the leader."
        ),
        one_of("", RACK_AWARE),
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Move leadership to other brokers before a clean stop.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries",
        INT,
        3,
        "Retries of a controlled shutdown if the controller cannot be reached.",
        at_least(0),
    ),
    ConfigKey("controlled.shutdown.retry.backoff.ms", LONG, 5000, "Pause between these retries, in ms.", at_least(0)),
    ConfigKey(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Give leadership back to preferred leaders automatically when they are in sync again.",
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "Interval at which the controller checks whether preferred leaders lead, in seconds.",
        at_least(1),
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        (
            "Percentage of a broker's preferred partitions that others may lead before the controller restores its "
            "leadership."
        ),
        at_least(0),
    ),
)
