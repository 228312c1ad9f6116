"""The table of topic settings, and their effective values with the broker's defaults.

Names, types, bounds and synonyms follow Apache Kafka 4.4 (`LogConfig`, `ServerTopicConfigSynonyms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.definition import ConfigDef, nearest_name
from pybroker.config.setting_values import (
    ConfigError,
    ConfigKey,
    ConfigType,
    InvalidValue,
    Scope,
    Value,
    at_least,
    items_of,
    render_value,
    throttled_replicas,
)
from pybroker.native import NativePartitions

if TYPE_CHECKING:
    from pybroker.config.broker_config import BrokerConfig

# Topic setting → broker setting with its default. In a family of broker settings (ms, minutes, hours), the member with
# the highest precedence.
BROKER_SYNONYM: dict[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}

# Factor from a family member's unit to milliseconds, the unit of the topic setting.
UNIT_MS: dict[str, int] = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}

# Topic settings whose default comes from a broker setting that has another unit or may be null.
_OWN_DEFAULTS: dict[str, Value] = {
    "retention.ms": 604_800_000,
    "segment.ms": 604_800_000,
    "segment.jitter.ms": 0,
    "flush.ms": 9223372036854775807,
}


_OWN_VALIDATORS = {"cleanup.policy": items_of("compact", "delete", repeated=True)}
"""As in Kafka, a topic may name the same policy twice."""


def _from_broker(name: str, synonym: str) -> ConfigKey:
    broker = BROKER_SETTINGS[synonym]
    return ConfigKey(
        name,
        broker.type,
        _OWN_DEFAULTS.get(name, broker.default),
        broker.documentation,
        _OWN_VALIDATORS.get(name, broker.validator),
        Scope.CLUSTER_WIDE,
    )


_THROTTLE = "Replicas of this topic whose {} traffic is throttled, as partition:broker pairs or * for all (KIP-73)."

TOPIC_SETTINGS = ConfigDef(
    sorted(
        [
            *(_from_broker(name, synonym) for name, synonym in BROKER_SYNONYM.items()),
            ConfigKey(
                "delete.protection.enable",
                ConfigType.BOOLEAN,
                False,
                "Refuse to delete or truncate the topic until this is false again. Not one of Kafka's settings.",
            ),
            ConfigKey(
                "errors.deadletterqueue.group.enable",
                ConfigType.BOOLEAN,
                False,
                "Allow share groups to use the topic as their dead letter queue (KIP-1191).",
                None,
                Scope.CLUSTER_WIDE,
            ),
            ConfigKey(
                "ingest.quota.topic.bytes.per.second",
                ConfigType.LONG,
                2**63 - 1,
                (
                    "Bytes per second that all staged ingests of the topic may send to each broker; applies to ingests "
                    "that begin later. Not one of Kafka's settings."
                ),
                at_least(1),
            ),
            ConfigKey(
                "leader.replication.throttled.replicas",
                ConfigType.LIST,
                (),
                _THROTTLE.format("outgoing replication"),
                throttled_replicas,
            ),
            ConfigKey(
                "follower.replication.throttled.replicas",
                ConfigType.LIST,
                (),
                _THROTTLE.format("incoming replication"),
                throttled_replicas,
            ),
            ConfigKey(
                "internal.segment.bytes",
                ConfigType.INT,
                None,
                "Segment size without the lower bound of segment.bytes; for tests.",
                at_least(14),
                Scope.CLUSTER_WIDE,
                True,
            ),
        ],
        key=lambda key: key.name,
    )
)

# Kafka's topic settings that have no effect in pybroker, with their harmless values. Mirroring tools copy them between
# clusters.
ONLY_AS: dict[str, tuple[str, str]] = {
    "remote.storage.enable": ("false", "tiered storage is not supported"),
    "remote.log.copy.disable": ("false", "tiered storage is not supported"),
    "remote.log.delete.on.disable": ("false", "tiered storage is not supported"),
    "remote.copy.lag.bytes": ("-1", "tiered storage is not supported"),
    "remote.copy.lag.ms": ("0", "tiered storage is not supported"),
    "local.retention.bytes": ("-2", "tiered storage is not supported; use retention.bytes"),
    "local.retention.ms": ("-2", "tiered storage is not supported; use retention.ms"),
    "max.decompressed.message.bytes": ("2147483639", "this broker limits decompression itself"),
}


def validate_topic_config(name: str, text: str | None) -> str | None:
    """Return the canonical text of one topic setting, or None for a Kafka setting that has no effect in pybroker.
    Raises ConfigError (INVALID_CONFIG on the wire) if it is unknown or invalid.
    """
    if text is None:
        raise ConfigError(f"{name}: a topic setting requires a value other than null")
    only = ONLY_AS.get(name)
    if only is not None:
        if text.strip() != only[0]:
            raise ConfigError(f"{name}={text}: only {only[0]} is accepted, because {only[1]}")
        return None
    key = TOPIC_SETTINGS.get(name)
    if key is None:
        nearest = nearest_name(name, TOPIC_SETTINGS)
        hint = f"; did you mean {nearest}?" if nearest else ""
        raise ConfigError(f"unknown topic setting {name}{hint}")
    try:
        return render_value(key.parse(text))
    except InvalidValue as problem:
        raise ConfigError(f"{name}={text}: {problem}") from None


def validate_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the canonical texts of a topic's own settings, checked one by one and against each other. Raises
    ConfigError (INVALID_CONFIG on the wire) if a setting is invalid.
    """
    canonical: dict[str, str] = {}
    for name, text in configs.items():
        value = validate_topic_config(name, text)
        if value is not None:
            canonical[name] = value
    return canonical


def check_resolved(resolved: Mapping[str, str]) -> None:
    """Check one topic's settings against each other (Kafka: LogConfig.validateTopicLogConfigValues). Raises ConfigError
    if they contradict each other.
    """
    least, most = resolved["min.compaction.lag.ms"], resolved["max.compaction.lag.ms"]
    if int(least) > int(most):
        raise ConfigError(f"min.compaction.lag.ms={least} must not be above max.compaction.lag.ms={most}")
    try:
        # Check before storing. Otherwise native code would later refuse the settings, and they would never take effect.
        NativePartitions.check_topic_config(dict(resolved))
    except ValueError as problem:
        raise ConfigError(str(problem)) from None


def broker_default(name: str, config: BrokerConfig) -> str:
    """Return, as text, the value of a topic setting on this broker if the topic does not set it."""
    synonym = BROKER_SYNONYM.get(name)
    if synonym is not None:
        found = config.first_of_family(synonym)
        if found is not None:
            member, value = found
            if isinstance(value, int) and not isinstance(value, bool) and member in UNIT_MS:
                # A negative number of hours means no limit, whatever the unit.
                value = value * UNIT_MS[member] if value >= 0 else -1
            return render_value(value) or ""
    return render_value(TOPIC_SETTINGS[name].default) or ""


def resolve_topic_configs(overrides: Mapping[str, str], config: BrokerConfig) -> dict[str, str]:
    """Return every topic setting with its effective value, as canonical text for native code.

    Ignores `overrides` that this version does not know (from a metadata store of another version).
    """
    resolved = {name: overrides.get(name) or broker_default(name, config) for name in TOPIC_SETTINGS}
    for name in (
        "cleanup.policy",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    ):
        if name in overrides:  # An empty list is a value, not a missing one.
            resolved[name] = overrides[name]
    small = resolved.pop("internal.segment.bytes")
    if small:
        resolved["segment.bytes"] = small
    return resolved
