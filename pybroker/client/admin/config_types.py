"""Settings of topics and brokers as administrators see them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pybroker.native import Uuid


class ConfigResourceType(IntEnum):
    """What settings belong to; Kafka's codes."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by name, by id or by both, a broker by id as text ("" = all brokers), a group, a subscription to metrics
    of clients. topic_id: of the incarnation that is meant; ZERO = the one that has the name."""

    type: ConfigResourceType
    name: str
    topic_id: Uuid = Uuid.ZERO

    def __str__(self) -> str:
        about = f"{self.type.name.lower().replace('_', ' ')} {self.name or (self.topic_id or '(all)')}"
        return f"{about} with id {self.topic_id}" if self.name and self.topic_id else about

    @classmethod
    def topic(cls, topic: str | Uuid) -> ConfigResource:
        """A topic by name, or by id."""
        if isinstance(topic, Uuid):
            return cls(ConfigResourceType.TOPIC, "", topic)
        return cls(ConfigResourceType.TOPIC, topic)

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
