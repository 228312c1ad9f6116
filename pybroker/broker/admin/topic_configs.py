"""The settings of a topic with their sources, as in a CreateTopics response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pybroker.config import BROKER_SYNONYM, TOPIC_SETTINGS, BrokerConfig, ConfigSource, resolve_topic_configs


class TopicSetting(NamedTuple):
    """One setting in force."""

    name: str
    value: str
    source: int
    """`ConfigSource` of the strongest layer that sets it."""
    sensitive: bool


def topic_settings(overrides: Mapping[str, str], config: BrokerConfig) -> list[TopicSetting]:
    """Return all settings of a topic with these overrides, sorted by name."""
    settings = []
    for name, value in sorted(resolve_topic_configs(overrides, config).items()):
        key = TOPIC_SETTINGS[name]
        if name in overrides:
            source = ConfigSource.DYNAMIC_TOPIC_CONFIG
        else:
            synonym = BROKER_SYNONYM.get(name)
            said = config.occurrences(synonym) if synonym is not None else []
            source = said[0][0] if said else ConfigSource.DEFAULT_CONFIG
        settings.append(TopicSetting(name, value, int(source), key.sensitive))
    return settings
