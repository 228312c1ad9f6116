"""The settings of single groups (KIP-848, KIP-932, KIP-1071), and their defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.definition import ConfigDef, nearest_name
from pybroker.config.setting_values import (
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
ASSIGNMENT_INTERVAL, SHARE_ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms", "share.assignment.interval.ms"
SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL = "share.session.timeout.ms", "share.heartbeat.interval.ms"
SHARE_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT, SHARE_RECORD_LOCKS = "share.delivery.count.limit", "share.partition.max.record.locks"
SHARE_OFFSET_RESET, SHARE_ISOLATION_LEVEL = "share.auto.offset.reset", "share.isolation.level"
STREAMS_SESSION_TIMEOUT, STREAMS_HEARTBEAT_INTERVAL = "streams.session.timeout.ms", "streams.heartbeat.interval.ms"
STREAMS_STANDBYS, STREAMS_WARMUPS = "streams.num.standby.replicas", "streams.num.warmup.replicas"
STREAMS_INITIAL_DELAY = "streams.initial.rebalance.delay.ms"
STREAMS_ASSIGNMENT_INTERVAL = "streams.assignment.interval.ms"
STREAMS_TASK_OFFSETS, STREAMS_RECOVERY_LAG = "streams.task.offset.interval.ms", "streams.acceptable.recovery.lag"
STREAMS_RACK_TAGS, STREAMS_ASSIGNOR = "streams.rack.aware.assignment.tags", "streams.assignor.name"
ASSIGNOR_OFFLOADS = tuple(f"{kind}.assignor.offload.enable" for kind in ("consumer", "share", "streams"))
SHARE_RENEW = "share.renew.acknowledge.enable"
DEAD_LETTER_QUEUE = "errors.deadletterqueue.topic.name"
COPY_DEAD_LETTERS = "errors.deadletterqueue.copy.record.enable"


class OfBroker(NamedTuple):
    """The broker settings that give a group setting its default and its bounds."""

    default: str
    low: str | None = None
    """Setting with the lowest allowed value; None if only the setting's own bounds apply."""
    high: str | None = None


_WITH_BOTH_BOUNDS = (
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "assignment.interval.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "assignment.interval.ms"),
)

OF_BROKER: Mapping[str, OfBroker] = {
    **{
        f"{kind}.{name}": OfBroker(f"group.{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
        for kind, name in _WITH_BOTH_BOUNDS
    },
    STREAMS_STANDBYS: OfBroker("group.streams.num.standby.replicas", high="group.streams.max.standby.replicas"),
    STREAMS_INITIAL_DELAY: OfBroker("group.streams.initial.rebalance.delay.ms"),
    STREAMS_TASK_OFFSETS: OfBroker(
        "group.streams.task.offset.interval.ms", low="group.streams.min.task.offset.interval.ms"
    ),
    STREAMS_WARMUPS: OfBroker("group.streams.num.warmup.replicas", high="group.streams.max.warmup.replicas"),
    STREAMS_RECOVERY_LAG: OfBroker("group.streams.acceptable.recovery.lag"),
    STREAMS_RACK_TAGS: OfBroker("group.streams.rack.aware.assignment.tags"),
    **{name: OfBroker(f"group.{name}") for name in ASSIGNOR_OFFLOADS},
}

BEAT_BELOW_SESSION = (
    (HEARTBEAT_INTERVAL, SESSION_TIMEOUT),
    (SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT),
    (STREAMS_HEARTBEAT_INTERVAL, STREAMS_SESSION_TIMEOUT),
)
"""Pairs of settings. The value of the first setting must be lower than the value of the second."""

_NUMBERS = (ConfigType.INT, ConfigType.LONG)

_DURATION = re.compile(
    r"by_duration:P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?"
)


def duration_ms(reset: str) -> int | None:
    """Return the milliseconds of `by_duration:PnDTnHnMn.nS`; None for other texts."""
    match = _DURATION.fullmatch(reset)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _reset(value: Value) -> None:
    if value not in ("latest", "earliest") and duration_ms(str(value)) is None:
        raise InvalidValue("must be latest, earliest or by_duration:PnDTnHnMn.nS")


def _queue_name(value: Value) -> None:
    if str(value).startswith("__"):
        raise InvalidValue("internal topics (names with __) cannot be dead letter queues")


OF_GROUP_ALONE = (
    ConfigKey(
        SHARE_OFFSET_RESET,
        ConfigType.STRING,
        "latest",
        "Start position of a share group in a partition: latest, earliest, or by_duration:PnDTnHnMn.nS ago.",
        _reset,
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        SHARE_ISOLATION_LEVEL,
        ConfigType.STRING,
        "read_uncommitted",
        (
            "Visibility of transactional records for a share group: read_committed hides records of open and aborted "
            "transactions."
        ),
        one_of("read_committed", "read_uncommitted"),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        STREAMS_ASSIGNOR,
        ConfigType.STRING,
        None,
        "Task assignor of a streams group, one of group.streams.assignors. Unset: the first of them.",
        one_of("sticky"),
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        SHARE_RENEW,
        ConfigType.BOOLEAN,
        True,
        "Allow members of a share group to extend the locks of their records.",
        None,
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        DEAD_LETTER_QUEUE,
        ConfigType.STRING,
        "",
        "Topic for records that a share group rejected or reached their delivery limit. Empty: none.",
        _queue_name,
        Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        COPY_DEAD_LETTERS,
        ConfigType.BOOLEAN,
        False,
        (
            "Copy the record's key, value and headers to a dead letter. Otherwise its headers only name the record's "
            "position."
        ),
        None,
        Scope.CLUSTER_WIDE,
    ),
)
"""Group settings for which there is no broker setting."""


def _from_broker(name: str, synonym: str) -> ConfigKey:
    key = BROKER_SETTINGS[synonym]
    return ConfigKey(name, key.type, key.default, key.documentation, key.validator, Scope.CLUSTER_WIDE, key.internal)


GROUP_SETTINGS = ConfigDef(
    [*(_from_broker(name, broker.default) for name, broker in OF_BROKER.items()), *OF_GROUP_ALONE]
)


def validate_group_config(name: str, text: str) -> str:
    """Return the canonical text of a group setting, after its own check. Raises ConfigError if the value is invalid."""
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
    """Check whether a group may have these settings on a broker with `config`. Raises ConfigError if it may not."""
    values: dict[str, int] = {}
    for name, broker in OF_BROKER.items():
        if GROUP_SETTINGS[name].type not in _NUMBERS:
            continue
        values[name] = value = int(own.get(name, config[broker.default]))
        low, high = _bounds(broker, config)
        if name in own and not low <= value <= high:
            between = [f"{bound}={config[bound]}" for bound in (broker.low, broker.high) if bound is not None]
            range_text = f"between {' and '.join(between)}" if len(between) > 1 else f"within {between[0]}"
            raise ConfigError(f"{name}={value}: must be {range_text}")
    for beat, session in BEAT_BELOW_SESSION:
        if values[beat] >= values[session]:
            raise ConfigError(f"{beat}={values[beat]}: must be below {session}={values[session]}")


def _bounds(broker: OfBroker, config: Mapping[str, Any]) -> tuple[int, float]:
    low = 0 if broker.low is None else int(config[broker.low])
    return low, math.inf if broker.high is None else int(config[broker.high])


def effective_value(name: str, own: Mapping[str, str], config: Mapping[str, Any]) -> int:
    """Return the effective value of a setting for a group. It is the group's own value within the broker's bounds,
    because the bounds may have changed since the value was stored.
    """
    broker = OF_BROKER[name]
    low, high = _bounds(broker, config)
    return int(max(low, min(high, int(own.get(name, config[broker.default])))))


def effective_words(name: str, own: Mapping[str, str], config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the effective value of a list setting."""
    value = GROUP_SETTINGS[name].parse(own[name]) if name in own else config[OF_BROKER[name].default]
    return value if isinstance(value, tuple) else ()


def effective_text(name: str, own: Mapping[str, str]) -> str:
    """Return the effective value of a group setting for which there is no broker setting."""
    return own.get(name) or render_value(GROUP_SETTINGS[name].default) or ""
