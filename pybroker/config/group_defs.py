"""The settings that a group may have of its own (KIP-848), and what holds without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.definition import ConfigDef, nearest_name
from pybroker.config.values import ConfigError, ConfigKey, InvalidValue, Scope, render_value

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


class OfBroker(NamedTuple):
    """The settings of brokers that belong to one of groups."""

    default: str
    low: str
    high: str


OF_BROKER: Mapping[str, OfBroker] = {
    f"consumer.{name}": OfBroker(f"group.consumer.{name}", f"group.consumer.min.{name}", f"group.consumer.max.{name}")
    for name in ("heartbeat.interval.ms", "session.timeout.ms")
}


def _from_broker(name: str, synonym: str) -> ConfigKey:
    broker = BROKER_SETTINGS[synonym]
    return ConfigKey(name, broker.type, broker.default, broker.documentation, broker.validator, Scope.CLUSTER_WIDE)


GROUP_SETTINGS = ConfigDef(_from_broker(name, broker.default) for name, broker in OF_BROKER.items())


def validate_group_config(name: str, text: str) -> str:
    """The canonical text of a group's own setting, checked by itself. Raises ConfigError."""
    key = GROUP_SETTINGS.get(name)
    if key is None:
        nearest = nearest_name(name, GROUP_SETTINGS)
        hint = f"; did you mean {nearest}?" if nearest else ""
        raise ConfigError(f"unknown group setting {name}{hint}")
    try:
        return render_value(key.parse(text)) or ""
    except InvalidValue as problem:
        raise ConfigError(f"{name}={text}: {problem}") from None


def check_group_configs(own: Mapping[str, str], config: Mapping[str, Any]) -> None:
    """Whether a group may have these settings on a broker with these. Raises ConfigError."""
    values: dict[str, int] = {}
    for name, broker in OF_BROKER.items():
        values[name] = value = int(own.get(name, config[broker.default]))
        if name in own and not config[broker.low] <= value <= config[broker.high]:
            raise ConfigError(
                f"{name}={value}: not between {broker.low}={config[broker.low]} and {broker.high}={config[broker.high]}"
            )
    if values[HEARTBEAT_INTERVAL] >= values[SESSION_TIMEOUT]:
        raise ConfigError(
            f"{HEARTBEAT_INTERVAL}={values[HEARTBEAT_INTERVAL]}: not below "
            f"{SESSION_TIMEOUT}={values[SESSION_TIMEOUT]}"
        )


def in_force(name: str, own: Mapping[str, str], config: Mapping[str, Any]) -> int:
    """What holds for a group with these settings of its own. The bounds of the broker may have changed since they were
    set: none goes beyond."""
    broker = OF_BROKER[name]
    if name not in own:
        return int(config[broker.default])
    return max(int(config[broker.low]), min(int(config[broker.high]), int(own[name])))
