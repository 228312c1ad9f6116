"""Settings of topics and brokers as administrators see them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ConfigResourceType(IntEnum):
    """What settings belong to; Kafka's codes."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by name, a broker by id as text ("" = all brokers), a group, a subscription to metrics of clients."""

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', ' ')} {self.name or '(all)'}"

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """A topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | str) -> ConfigResource:
        """A broker; "" = the defaults of all."""
        return cls(ConfigResourceType.BROKER, str(broker_id))


class ConfigSource(IntEnum):
    """Where a value comes from; Kafka's codes."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that would hold if stronger ones were absent."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting and its value; None for sensitive ones."""

    name: str
    value: str | None
    source: int = ConfigSource.UNKNOWN
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: int = 0
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source == ConfigSource.DEFAULT_CONFIG


class OpType(IntEnum):
    """What to do with a setting; Kafka's codes (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """One change. `value` is not looked at for DELETE."""

    name: str
    value: str | None
    op: OpType = OpType.SET
