"""The settings that a group may have of its own (KIP-848, KIP-932), and what holds without them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.definition import ConfigDef, nearest_name
from pybroker.config.values import (
    ConfigError,
    ConfigKey,
    ConfigType,
    InvalidValue,
    Scope,
    Value,
    one_of,
    render_value,
)

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL = "share.session.timeout.ms", "share.heartbeat.interval.ms"
SHARE_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT, SHARE_RECORD_LOCKS = "share.delivery.count.limit", "share.partition.max.record.locks"
SHARE_OFFSET_RESET, SHARE_ISOLATION_LEVEL = "share.auto.offset.reset", "share.isolation.level"


class OfBroker(NamedTuple):
    """The settings of brokers that belong to one of groups."""

    default: str
    low: str
    high: str


OF_BROKER: Mapping[str, OfBroker] = {
    f"{kind}.{name}": OfBroker(f"group.{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
    for kind, name in (
        ("consumer", "heartbeat.interval.ms"),
        ("consumer", "session.timeout.ms"),
        ("share", "heartbeat.interval.ms"),
        ("share", "session.timeout.ms"),
        ("share", "record.lock.duration.ms"),
        ("share", "delivery.count.limit"),
        ("share", "partition.max.record.locks"),
    )
}

_DURATION = re.compile(
    r"by_duration:P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?"
)


def duration_ms(reset: str) -> int | None:
    """Of `by_duration:PnDTnHnMn.nS`; None where it is none."""
    match = _DURATION.fullmatch(reset)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _reset(value: Value) -> None:
    if value not in ("latest", "earliest") and duration_ms(str(value)) is None:
        raise InvalidValue("must be latest, earliest or by_duration:PnDTnHnMn.nS")


OF_GROUP_ALONE = (
    ConfigKey(
        SHARE_OFFSET_RESET,
        ConfigType.STRING,
        "latest",
        "Where a share group begins in a partition: latest, earliest, or by_duration:PnDTnHnMn.nS ago.",
        _reset,
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        SHARE_ISOLATION_LEVEL,
        ConfigType.STRING,
        "read_uncommitted",
        "Whether a share group is given records of transactions that have not ended, or were aborted.",
        one_of("read_committed", "read_uncommitted"),
        Scope.CLUSTER_WIDE,
    ),
)
"""Settings that no setting of the broker stands behind."""


def _from_broker(name: str, synonym: str) -> ConfigKey:
    broker = BROKER_SETTINGS[synonym]
    return ConfigKey(name, broker.type, broker.default, broker.documentation, broker.validator, Scope.CLUSTER_WIDE)


GROUP_SETTINGS = ConfigDef(
    [*(_from_broker(name, broker.default) for name, broker in OF_BROKER.items()), *OF_GROUP_ALONE]
)


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
    for beat, session in (
        (HEARTBEAT_INTERVAL, SESSION_TIMEOUT),
        (SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT),
    ):
        if values[beat] >= values[session]:
            raise ConfigError(f"{beat}={values[beat]}: not below {session}={values[session]}")


def in_force(name: str, own: Mapping[str, str], config: Mapping[str, Any]) -> int:
    """What holds for a group with these settings of its own. The bounds of the broker may have changed since they were
    set: none goes beyond."""
    broker = OF_BROKER[name]
    if name not in own:
        return int(config[broker.default])
    return max(int(config[broker.low]), min(int(config[broker.high]), int(own[name])))


def text_in_force(name: str, own: Mapping[str, str]) -> str:
    """What holds for a group, of a setting that no setting of the broker stands behind."""
    return own.get(name) or str(GROUP_SETTINGS[name].default)
