"""Broker settings of staged ingest (docs/staged-ingest.md). Apache Kafka has none of them."""

from __future__ import annotations

from pybroker.config.setting_values import CENTURY_MS, ConfigKey, ConfigType, Scope, at_least, between

CLUSTER = Scope.CLUSTER_WIDE
LONG = ConfigType.LONG
LONG_MAX = 9223372036854775807

INGEST = (
    ConfigKey(
        "ingest.ttl.ms",
        LONG,
        3600000,
        "Default time without an append after which an open ingest is dropped, in ms.",
        between(1, CENTURY_MS),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.ttl.max.ms",
        LONG,
        86400000,
        "Upper bound of ttl_ms of a client, in ms; larger values are reduced to it.",
        between(1, CENTURY_MS),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.id.retention.ms",
        LONG,
        604800000,
        (
            "Time that the ids of committed ingests are remembered, in ms. During it a repeated job or commit writes "
            "nothing."
        ),
        between(1, CENTURY_MS),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.open.max",
        LONG,
        1000,
        "Maximum number of open ingests.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.committed.max",
        LONG,
        100000,
        (
            "Maximum number of ingests that are open or remembered as committed; at the limit no ingest can "
            "begin until ids expire. A stream counts once."
        ),
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.attempts.max",
        LONG,
        200000,
        (
            "Maximum number of attempts in all open ingests, counted per partition that they wrote to. Beyond it "
            "writers get THROTTLING_QUOTA_EXCEEDED."
        ),
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.staged.bytes.max",
        LONG,
        LONG_MAX,
        "Maximum bytes staged by all open ingests; beyond it writers get THROTTLING_QUOTA_EXCEEDED.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.copy.bytes.max",
        LONG,
        4194304,
        (
            "Bytes per partition up to which a commit is copied to the end of the log; larger commits are linked as "
            "segments of their own."
        ),
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.cached.bytes.max",
        LONG,
        4194304,
        (
            "Bytes of each staged segment that are written through the page cache; the rest bypasses it "
            "(O_DIRECT, where the file system supports it), so that loads do not evict other data."
        ),
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.quota.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes per second that all ingests may stage. Responses contain the time to wait.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.quota.shared.bytes.per.second",
        LONG,
        200000000,
        (
            "Bytes per second that all ingests may stage while other clients produce (until one second after the last "
            "produce request), to protect their latency."
        ),
        at_least(1),
        CLUSTER,
    ),
)
