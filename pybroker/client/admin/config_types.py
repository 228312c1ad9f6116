"""Types of AdminClient's calls about settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pybroker.native import Uuid


class ConfigResourceType(IntEnum):
    """The type of a resource that has settings; Kafka's codes."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic (by name, id or both), a broker (its id as text, "" = all brokers), a group, or a client metrics
    subscription.

    topic_id: the incarnation of the topic; ZERO = the current topic of that name.
    """

    type: ConfigResourceType
    name: str
    topic_id: Uuid = Uuid.ZERO

    def __str__(self) -> str:
        about = f"{self.type.name.lower().replace('_', ' ')} {self.name or (self.topic_id or '(all)')}"
        return f"{about} with id {self.topic_id}" if self.name and self.topic_id else about

    @classmethod
    def topic(cls, topic: str | Uuid) -> ConfigResource:
        """Return the resource of a topic by name or by id."""
        if isinstance(topic, Uuid):
            return cls(ConfigResourceType.TOPIC, "", topic)
        return cls(ConfigResourceType.TOPIC, topic)

    @classmethod
    def broker(cls, broker_id: int | str) -> ConfigResource:
        """Return the resource of a broker; "" = the cluster-wide default."""
        return cls(ConfigResourceType.BROKER, str(broker_id))


class ConfigSource(IntEnum):
    """The source of a setting's value; Kafka's codes."""

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
    """A source of a setting with the value that it gives. The value applies unless a source of higher precedence has a
    value."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting and its value. The value of a sensitive setting is None."""

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
        """Whether the value is the built-in default."""
        return self.source == ConfigSource.DEFAULT_CONFIG


class OpType(IntEnum):
    """An operation on a setting; Kafka's codes (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """One change of a setting. DELETE ignores `value`."""

    name: str
    value: str | None
    op: OpType = OpType.SET
