"""The settings of a client metrics subscription (KIP-714), as in Kafka's ClientMetricsConfigs."""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.config.definition import ConfigDef
from pybroker.config.setting_values import (
    ConfigError,
    ConfigKey,
    ConfigType,
    InvalidValue,
    Scope,
    between,
    parse_value,
    render_value,
)
from pybroker.native import Pattern
from pybroker.protocol import patterns

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
ALL_METRICS = "*"
INTERVAL_DEFAULT_MS = 300_000

CLIENT_INSTANCE_ID, CLIENT_ID = "client_instance_id", "client_id"
SOFTWARE_NAME, SOFTWARE_VERSION = "client_software_name", "client_software_version"
SOURCE_ADDRESS, SOURCE_PORT = "client_source_address", "client_source_port"
SELECTORS = frozenset({CLIENT_INSTANCE_ID, CLIENT_ID, SOFTWARE_NAME, SOFTWARE_VERSION, SOURCE_ADDRESS, SOURCE_PORT})

CLIENT_METRICS_SETTINGS = ConfigDef(
    (
        ConfigKey(
            INTERVAL,
            ConfigType.INT,
            INTERVAL_DEFAULT_MS,
            "Interval at which clients push metrics, in ms.",
            between(100, 3_600_000),
            Scope.CLUSTER_WIDE,
        ),
        ConfigKey(
            MATCH,
            ConfigType.LIST,
            (),
            "Clients that push: selector=regular expression pairs, all of which must match; empty: all clients.",
            None,
            Scope.CLUSTER_WIDE,
        ),
        ConfigKey(METRICS, ConfigType.LIST, (), "Prefixes of metric names; * means all.", None, Scope.CLUSTER_WIDE),
    )
)


def validate_client_metrics_config(name: str, text: str) -> str:
    """Return the canonical text of a known setting. Raises InvalidValue if a number is out of bounds, ConfigError if
    the text is no number or a pattern is invalid.
    """
    key = CLIENT_METRICS_SETTINGS[name]
    try:
        parse_value(name, key.type, text)
    except InvalidValue as problem:
        raise ConfigError(f"Invalid value {text} for {name}: {problem}") from None
    value = key.parse(text)
    if name == MATCH:
        parsed_match(text)
    return render_value(value) or ""


def parsed_match(text: str) -> Mapping[str, Pattern]:
    """Return selector → expression. The expression must match the whole text, and takes linear time. Raises
    ConfigError."""
    found: dict[str, Pattern] = {}
    for pattern in filter(None, (each.strip() for each in text.split(","))):
        parts = pattern.split("=")
        if len(parts) != 2 or parts[0].strip() not in SELECTORS:
            raise ConfigError(f"Illegal client matching pattern: {pattern}")
        try:
            found[parts[0].strip()] = patterns.compiled(parts[1].strip())
        except ValueError:
            raise ConfigError(f"Illegal client matching pattern: {pattern}") from None
    return found
