"""The table of broker settings: all settings with an effect, under Kafka's names if Kafka has them, and Kafka's dynamic
settings that have no effect in pybroker.

Names, types, defaults, bounds and scopes follow Apache Kafka 4.4 (`AbstractKafkaConfig`, `DynamicBrokerConfig`); a
setting's documentation mentions a different default or scope. `foreign_settings` has Kafka's settings that this broker
lacks.
"""

from __future__ import annotations

import msgspec

from pybroker.config import (
    broker_cluster,
    broker_groups,
    broker_ingest,
    broker_log,
    broker_network,
    broker_oauth,
    broker_otlp,
    broker_security,
    broker_share,
    broker_streams,
    broker_tls,
    broker_token,
    broker_transactions,
)
from pybroker.config.broker_tls import BY_NAME as TLS
from pybroker.config.broker_without_effect import WITHOUT_EFFECT
from pybroker.config.definition import ConfigDef
from pybroker.config.listener_settings import listener_setting
from pybroker.config.setting_values import ConfigKey, Scope

BROKER_SETTINGS = ConfigDef(
    broker_network.IDENTITY
    + broker_network.LISTENERS
    + broker_network.SOCKETS
    + broker_network.OPERATION
    + broker_otlp.OTLP
    + broker_security.SASL
    + broker_oauth.OAUTH
    + broker_token.TOKEN
    + broker_security.AUTHORIZATION
    + broker_security.DELEGATION_TOKENS
    + broker_tls.TLS
    + broker_cluster.METADATA
    + broker_cluster.REPLICATION
    + broker_log.DIRECTORIES
    + broker_log.DURABILITY
    + broker_log.SEGMENTS
    + broker_log.RETENTION
    + broker_log.COMPACTION
    + broker_log.RECORDS
    + broker_log.TOPICS
    + broker_ingest.INGEST
    + broker_network.QUOTAS
    + broker_groups.GROUPS
    + broker_groups.CONSUMER_GROUPS
    + broker_groups.OFFSETS
    + broker_share.SHARE_GROUPS
    + broker_streams.STREAMS_GROUPS
    + broker_share.SHARE_COORDINATOR
    + broker_groups.TELEMETRY
    + broker_transactions.TRANSACTIONS
    + WITHOUT_EFFECT
)

# Settings for the same value in other units, in descending precedence (Kafka:
# DynamicBrokerConfig.brokerConfigSynonyms).
SYNONYMS: dict[str, tuple[str, ...]] = {
    name: family
    for family in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ("log.dirs", "log.dir"),
        ("node.id", "broker.id"),
    )
    for name in family
}


def broker_key(name: str) -> ConfigKey | None:
    """Return the table row for a setting's name in a request; None for unknown settings, and for listener settings that
    are not dynamic.
    """
    if name in BROKER_SETTINGS:
        return BROKER_SETTINGS[name]
    setting = listener_setting(name)
    if setting is None or setting.mechanism is not None or setting.name not in TLS:
        return None
    key = TLS[setting.name]
    return None if key.scope is Scope.READ_ONLY else msgspec.structs.replace(key, name=name)
