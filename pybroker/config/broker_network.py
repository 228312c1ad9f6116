"""Broker settings: identity, listeners, and limits of connections."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

import os

from pybroker.config import connection_overrides
from pybroker.config.listeners import PROTOCOLS, SECURITY_BETWEEN, host_port
from pybroker.config.protocol_version import LATEST, PROTOCOL_VERSION, check_protocol_version
from pybroker.config.values import (
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
    """Return one thread per core up to two cores, else leave a core to the control plane; more than eight never paid
    off.
    """
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
        "Number of this broker in its cluster. broker.id is the older name of the same setting.",
        at_least(0),
    ),
    ConfigKey("broker.id", INT, None, "Older name of node.id. When both are given they must agree.", at_least(-1)),
    ConfigKey(
        "broker.rack",
        STRING,
        None,
        "Rack of this broker, told to clients so that they can read from near replicas.",
    ),
)

LISTENERS = (
    ConfigKey(
        "listeners",
        LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Addresses to listen on, as NAME://host:port. An empty host means every interface; port 0 means a free one. "
        "The default is reachable from this machine only.",
        not_empty,
    ),
    ConfigKey(
        "advertised.listeners",
        LIST,
        None,
        "Addresses that clients are told to connect to, by listener name. Unset: the addresses of listeners, where an empty host becomes this host's name.",
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
        "Listener that brokers use among themselves. One node has nobody to talk to.",
    ),
    ConfigKey(
        SECURITY_BETWEEN,
        STRING,
        "PLAINTEXT",
        "In a cluster, without inter.broker.listener.name: brokers use the listener that has this protocol as its name. "
        "One node has no connections to others.",
        one_of(*PROTOCOLS),
    ),
    ConfigKey(
        "metrics.listener",
        STRING,
        "",
        "Address host:port on which /metrics (Prometheus text), /healthz and /readyz are served over plain HTTP. Empty: none. "
        "Not one of Kafka's settings.",
        _optional_host_port,
    ),
    ConfigKey(
        "ready.log.dir.usable.bytes.min",
        LONG,
        0,
        "/readyz answers 503 while a log directory is full or has fewer usable bytes than this. 0: disks do not count. "
        "Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "metrics.topics.max",
        INT,
        1000,
        "Topics with series of their own at /metrics; what is left out is counted there. Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "metrics.partitions.max",
        INT,
        10000,
        "Partitions with series of their own at /metrics: logs, replicas and lag of groups. Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "metrics.groups.max",
        INT,
        100,
        "Groups whose lag is shown at /metrics: those that are behind most. Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "metrics.clients.max",
        INT,
        100,
        "Names and versions of client software with a series of their own at /metrics. Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "metric.reporters",
        LIST,
        (),
        "Python classes, module:Class each, that get this broker's metrics and, if they are ClusterResourceListeners, its cluster id. Classes of the JVM are passed over.",
    ),
)

SOCKETS = (
    ConfigKey(
        "num.network.threads",
        INT,
        data_threads_default(),
        "Threads that serve connections, each with an event loop of its own. The default follows the number of cores "
        "(Kafka: 3). Fixed at start, because connections stay with their thread.",
        between(1, 256),
    ),
    ConfigKey(
        "socket.request.max.bytes",
        INT,
        104857600,
        "Largest request accepted, in bytes; a larger one closes the connection before any memory is taken.",
        at_least(1),
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        INT,
        1024,
        "Connections that the kernel completes before they are accepted (Kafka: 50).",
        at_least(1),
    ),
    ConfigKey(
        "socket.send.buffer.bytes",
        INT,
        -1,
        "Send buffer of a client's socket, in bytes; -1 lets the kernel size it as the connection needs (Kafka: 102400).",
        _socket_buffer,
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        INT,
        -1,
        "Receive buffer of a client's socket, in bytes; -1 lets the kernel size it as the connection needs (Kafka: 102400).",
        _socket_buffer,
    ),
    ConfigKey(
        "queued.max.requests",
        INT,
        10000,
        "Requests that may wait for the control plane; above it the broker stops reading from the sockets that bring more "
        "(Kafka: 500, for its pool of threads). Produce, Fetch and the other requests of the data plane do not count.",
        at_least(1),
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        INT,
        2000,
        "Most partitions that one answer to DescribeTopicPartitions lists; the client asks for the rest with a cursor.",
        at_least(1),
    ),
    ConfigKey(
        "connections.max.idle.ms",
        LONG,
        600000,
        "A connection that is idle for longer is closed, in ms; -1 never.",
        at_least(-1),
    ),
    ConfigKey(
        "max.connections",
        INT,
        10000,
        "Connections of clients in all; the listener for brokers has as many of its own. Bounded by default (Kafka: no bound), so that half-open peers cannot use up the broker.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "max.connections.per.ip",
        INT,
        1000,
        "Connections from one address. Bounded by default (Kafka: no bound).",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Exceptions to max.connections.per.ip, as host:count pairs. A host name stands for its addresses when this is set.",
        connection_overrides.check,
        CLUSTER,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        INT,
        2147483647,
        "New connections accepted a second.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        536870912,
        "Memory that requests in progress may hold in all, in bytes; above it the broker stops reading from sockets. "
        "Bounded by default (Kafka: -1, no bound).",
        at_least(-1),
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "Fetch sessions that the broker remembers (KIP-227); further clients fetch without a session.",
        at_least(0),
    ),
    ConfigKey(
        "fetch.max.bytes",
        INT,
        57671680,
        "Most bytes that one fetch is answered with, whatever the client asks for.",
        at_least(1024),
    ),
    ConfigKey(
        "connection.inflight.max.bytes",
        LONG,
        16777216,
        "Requests and replies that one connection may have in progress, in bytes; above it nothing more is read from that connection, but one whole request is always accepted. "
        "Not one of Kafka's settings.",
        at_least(1024),
    ),
)

OPERATION = (
    ConfigKey(
        PROTOCOL_VERSION,
        STRING,
        LATEST,
        "Below 2.8 topics have no ids that clients see, as before KIP-516. Can be raised to 2.8 or later while running, for all brokers; never lowered below 2.8 again.",
        check_protocol_version,
        CLUSTER,
    ),
    ConfigKey(
        "shutdown.timeout.ms",
        LONG,
        30000,
        "Longest time a clean stop may take, in ms; then the process ends as it is and the next start recovers. Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "log.format",
        STRING,
        "text",
        "Shape of the log's lines: text, or json: one object a line with time, level, event, message and logger. Not one of Kafka's settings.",
        one_of("text", "json"),
    ),
    ConfigKey(
        "slow.request.log.ms",
        LONG,
        0,
        "Requests that take so long get a line in the log that says where the time went, at most 20 lines a second; 0: none does. Not one of Kafka's settings.",
        at_least(0),
    ),
    ConfigKey(
        "log.level",
        STRING,
        "INFO",
        "Least severe level that is logged to standard error. Single loggers have levels of their own (broker-loggers). Not one of Kafka's settings.",
        one_of("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
        CLUSTER,
    ),
)
