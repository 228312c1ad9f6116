"""Broker settings of staged ingest (docs/staged-ingest.md). Apache Kafka has none of them."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, Scope, at_least

CLUSTER = Scope.CLUSTER_WIDE
LONG = ConfigType.LONG
LONG_MAX = 9223372036854775807

INGEST = (
    ConfigKey(
        "ingest.ttl.ms",
        LONG,
        3600000,
        "An open ingest whose client does not say is dropped after so long without an append, in ms.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.ttl.max.ms",
        LONG,
        86400000,
        "The longest ttl_ms that a client may ask for, in ms; more is cut to it.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.id.retention.ms",
        LONG,
        604800000,
        "How long the ids of committed ingests are remembered, in ms: so long a repeated job or commit adds nothing.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.open.max",
        LONG,
        1000,
        "Ingests that may be open at a time.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.committed.max",
        LONG,
        100000,
        "Ingests that may be open or remembered as committed; with more, none is begun until ids are forgotten. A stream counts once.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.attempts.max",
        LONG,
        200000,
        "Attempts of writers that may have staged something in all open ingests together, each counted for each partition that it wrote to. One more is answered with THROTTLING_QUOTA_EXCEEDED until there is room.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.staged.bytes.max",
        LONG,
        LONG_MAX,
        "Bytes that all open ingests together may have staged; more is answered with THROTTLING_QUOTA_EXCEEDED until there is room.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.copy.bytes.max",
        LONG,
        4194304,
        "A commit that brings at most so many bytes to a partition is copied to the end of its log; a larger one is linked, as segments of its own.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.cached.bytes.max",
        LONG,
        4194304,
        "Of each segment that a load stages, so many bytes go through the page cache; the rest is written past it (O_DIRECT, where the file system has it), so that loads do not displace what others read.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.quota.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes a second that all ingests together may stage. Clients are told when to go on.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "ingest.quota.shared.bytes.per.second",
        LONG,
        200000000,
        "Bytes a second that all ingests together may stage while others produce (until a second after the last produce request), so that those keep their latency.",
        at_least(1),
        CLUSTER,
    ),
)
