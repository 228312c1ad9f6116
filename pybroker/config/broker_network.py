"""Broker settings: identity, listeners, limits of connections, and the windows of client quotas (KIP-13, KIP-599)."""

from __future__ import annotations

import os

from pybroker.config import connection_overrides
from pybroker.config.listener_addresses import PROTOCOLS, SECURITY_BETWEEN, host_port
from pybroker.config.protocol_version import LATEST, PROTOCOL_VERSION, check_protocol_version
from pybroker.config.setting_values import (
    CENTURY_MS,
    ConfigKey,
    ConfigType,
    Scope,
    Value,
    at_least,
    between,
    not_empty,
    one_of,
)

BOOLEAN, STRING, INT, LONG, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
)
CLUSTER = Scope.CLUSTER_WIDE


def data_threads_default() -> int:
    """Return the default number of data threads. With up to two cores, there is one thread per core. With more cores,
    one core is left to the control plane. The maximum is eight, because more threads have never increased the
    throughput."""
    cores = os.cpu_count() or 1
    return cores if cores <= 2 else min(cores - 1, 8)


def _optional_host_port(value: Value) -> None:
    if value:
        host_port(str(value))


def _socket_buffer(value: Value) -> None:
    if value != -1:
        at_least(1)(value)


IDENTITY = (
    ConfigKey(
        "node.id",
        INT,
        1,
        "Id of this broker in its cluster. broker.id is an older name of this setting.",
        at_least(0),
    ),
    ConfigKey("broker.id", INT, None, "Older name of node.id. If both are given they must be equal.", at_least(-1)),
    ConfigKey(
        "broker.rack",
        STRING,
        None,
        "Rack of this broker, which lets clients read from near replicas.",
    ),
)

LISTENERS = (
    ConfigKey(
        "listeners",
        LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        (
            "Addresses to listen on, as NAME://host:port. An empty host means all interfaces; port 0 means a "
            "free port. The default is reachable only from this machine."
        ),
        not_empty,
    ),
    ConfigKey(
        "advertised.listeners",
        LIST,
        None,
        (
            "Addresses that clients connect to, by listener name. Unset: those of listeners, with this host's name for "
            "an empty host."
        ),
    ),
    ConfigKey(
        "listener.security.protocol.map",
        STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Security protocol of each listener name, as NAME:PROTOCOL pairs.",
    ),
    ConfigKey(
        "inter.broker.listener.name",
        STRING,
        None,
        "Listener for connections between brokers. A single node needs none.",
    ),
    ConfigKey(
        SECURITY_BETWEEN,
        STRING,
        "PLAINTEXT",
        (
            "Used in a cluster without inter.broker.listener.name: brokers use the listener whose name is this "
            "protocol. A single node needs none."
        ),
        one_of(*PROTOCOLS),
    ),
    ConfigKey(
        "metrics.listener",
        STRING,
        "",
        (
            "Address host:port that serves /metrics (Prometheus text), /healthz and /readyz over plain HTTP. Empty: "
            "none. Not one of Kafka's settings."
        ),
        _optional_host_port,
    ),
    ConfigKey(
        "ready.log.dir.usable.bytes.min",
        LONG,
        0,
        (
            "/readyz returns 503 while a log directory is full or has fewer usable bytes than this. 0: ignore "
            "disks. Not one of Kafka's settings."
        ),
        at_least(0),
    ),
    ConfigKey(
        "metrics.topics.max",
        INT,
        1000,
        (
            "Maximum number of topics with their own series in /metrics; omitted topics are counted there. Not one of "
            "Kafka's settings."
        ),
        at_least(0),
    ),
    ConfigKey(
        "metrics.partitions.max",
        INT,
        10000,
        (
            "Maximum number of partitions with their own series in /metrics: logs, replicas and group lag. Not one of "
            "Kafka's settings."
        ),
        at_least(0),
    ),
    ConfigKey(
        "metrics.groups.max",
        INT,
        100,
        (
            "Maximum number of groups whose lag is in /metrics, those with the largest lag first. Not one of Kafka's "
            "settings."
        ),
        at_least(0),
    ),
    ConfigKey(
        "metrics.clients.max",
        INT,
        100,
        (
            "Maximum number of client software names and versions with their own series in /metrics. Not one of "
            "Kafka's settings."
        ),
        at_least(0),
    ),
    ConfigKey(
        "metric.reporters",
        LIST,
        (),
        (
            "Python classes (module:Class) that receive this broker's metrics and, if they are "
            "ClusterResourceListeners, its cluster id. Java classes are ignored."
        ),
    ),
)

SOCKETS = (
    ConfigKey(
        "num.network.threads",
        INT,
        data_threads_default(),
        (
            "Threads that serve connections, each with its own event loop. The default depends on the number of cores "
            "(Kafka: 3). It cannot change while the broker runs, because connections stay on their thread."
        ),
        between(1, 256),
    ),
    ConfigKey(
        "socket.request.max.bytes",
        INT,
        104857600,
        "Maximum size of a request, in bytes. A larger one closes the connection before memory is allocated.",
        at_least(1),
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        INT,
        1024,
        "Connections that the kernel completes before the broker accepts them (Kafka: 50).",
        at_least(1),
    ),
    ConfigKey(
        "socket.send.buffer.bytes",
        INT,
        -1,
        "Send buffer of client sockets, in bytes; -1 lets the kernel choose (Kafka: 102400).",
        _socket_buffer,
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        INT,
        -1,
        "Receive buffer of client sockets, in bytes; -1 lets the kernel choose (Kafka: 102400).",
        _socket_buffer,
    ),
    ConfigKey(
        "queued.max.requests",
        INT,
        10000,
        (
            "Maximum number of requests that wait for the control plane; at the limit the broker stops reading from "
            "sockets that send more (Kafka: 500, for its thread pool). Produce, Fetch and other data-plane requests do "
            "not count."
        ),
        at_least(1),
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        INT,
        2000,
        "Maximum number of partitions in one DescribeTopicPartitions response; clients request the rest with a cursor.",
        at_least(1),
    ),
    ConfigKey(
        "connections.max.idle.ms",
        LONG,
        600000,
        "Idle time after which a connection is closed, in ms; -1 means never.",
        at_least(-1),
    ),
    ConfigKey(
        "max.connections",
        INT,
        10000,
        (
            "Maximum number of client connections; the listener for brokers has the same number in addition. "
            "Limited by default (Kafka: no limit), so that half-open connections cannot exhaust the broker."
        ),
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "max.connections.per.ip",
        INT,
        1000,
        "Maximum number of connections from one address. Limited by default (Kafka: no limit).",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Exceptions to max.connections.per.ip, as host:count pairs. Host names are resolved when the setting is set.",
        connection_overrides.check,
        CLUSTER,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        INT,
        2147483647,
        "Maximum number of new connections per second.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        536870912,
        (
            "Memory for all requests in progress, in bytes; at the limit the broker stops reading from sockets. "
            "Limited by default (Kafka: -1, no limit)."
        ),
        at_least(-1),
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "Maximum number of fetch sessions (KIP-227); further clients fetch without a session.",
        at_least(0),
    ),
    ConfigKey(
        "fetch.max.bytes",
        INT,
        57671680,
        "Maximum bytes of a fetch response, regardless of the client's request.",
        at_least(1024),
    ),
    ConfigKey(
        "connection.inflight.max.bytes",
        LONG,
        16777216,
        (
            "Maximum bytes of requests and responses in progress per connection. At the limit the broker stops reading "
            "from the connection, but always accepts one whole request. Not one of Kafka's settings."
        ),
        at_least(1024),
    ),
)

OPERATION = (
    ConfigKey(
        PROTOCOL_VERSION,
        STRING,
        LATEST,
        (
            "Versions below 2.8 hide topic ids from clients, as before KIP-516. The version can be raised to 2.8 or "
            "later at runtime, for all brokers, but never lowered below 2.8 again."
        ),
        check_protocol_version,
        CLUSTER,
    ),
    ConfigKey(
        "shutdown.timeout.ms",
        LONG,
        30000,
        (
            "Longest time of a clean stop, in ms; after it the process exits, and the next start recovers. Not one of "
            "Kafka's settings."
        ),
        between(0, CENTURY_MS),
    ),
    ConfigKey(
        "log.format",
        STRING,
        "text",
        (
            "Format of log lines: text, or json (one object per line with time, level, event, message and logger). Not "
            "one of Kafka's settings."
        ),
        one_of("text", "json"),
    ),
    ConfigKey(
        "slow.request.log.ms",
        LONG,
        0,
        (
            "Duration of a request from which the broker logs where the time was spent, in ms, at most 20 lines per "
            "second; 0: never. Not one of Kafka's settings."
        ),
        at_least(0),
    ),
    ConfigKey(
        "log.level",
        STRING,
        "INFO",
        (
            "Minimum severity of log lines on standard error. Single loggers can have their own level "
            "(broker-loggers). Not one of Kafka's settings."
        ),
        one_of("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
        CLUSTER,
    ),
)


QUOTAS = (
    ConfigKey(
        "quota.window.num",
        INT,
        11,
        (
            "Number of time windows over which client quotas are measured, including the current one. A client may use "
            "the quota of all other windows in one burst."
        ),
        between(1, 1000),
    ),
    ConfigKey("quota.window.size.seconds", INT, 1, "Length of a quota window, in seconds.", between(1, 3600)),
    ConfigKey(
        "controller.quota.window.num",
        INT,
        11,
        (
            "Number of time windows whose quota of created and deleted partitions may be used in one burst "
            "(controller_mutation_rate)."
        ),
        between(1, 1000),
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "Length of a controller_mutation_rate window, in seconds.",
        between(1, 3600),
    ),
)
