"""Broker and topic settings under Kafka's names: tables, checks, sources (see `load_config`, `BrokerConfig`,
`topic_defs`).
"""

from pybroker.config.broker_config import BrokerConfig, ConfigSource
from pybroker.config.broker_defs import BROKER_SETTINGS, SYNONYMS
from pybroker.config.client_metrics_defs import CLIENT_METRICS_SETTINGS, validate_client_metrics_config
from pybroker.config.config_loader import LoadedConfig, load_config
from pybroker.config.definition import ConfigDef, nearest_name
from pybroker.config.group_defs import GROUP_SETTINGS, check_group_configs, validate_group_config
from pybroker.config.listener_addresses import Listener
from pybroker.config.setting_values import ConfigError, ConfigKey, ConfigType, InvalidValue, Scope, render_value
from pybroker.config.topic_defs import (
    BROKER_SYNONYM,
    TOPIC_SETTINGS,
    check_resolved,
    resolve_topic_configs,
    validate_topic_configs,
)

__all__ = [
    "BROKER_SETTINGS",
    "BROKER_SYNONYM",
    "CLIENT_METRICS_SETTINGS",
    "GROUP_SETTINGS",
    "SYNONYMS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "ConfigDef",
    "ConfigError",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "InvalidValue",
    "Listener",
    "LoadedConfig",
    "Scope",
    "check_group_configs",
    "check_resolved",
    "load_config",
    "nearest_name",
    "render_value",
    "resolve_topic_configs",
    "validate_client_metrics_config",
    "validate_group_config",
    "validate_topic_configs",
]
