"""Entries of DescribeConfigs: each setting with its value, source and synonyms. Pure (KIP-133, KIP-226, KIP-569).

Differs from Kafka 4.4, where the synonyms of a topic's retention start at log.retention.ms, so that log.retention.hours
is missing even if it is the effective setting. pybroker lists every setting of the retention family (hours, minutes,
ms), and the source is the source of the effective setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pybroker.config import (
    BROKER_SETTINGS,
    BROKER_SYNONYM,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    SYNONYMS,
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigKey,
    ConfigSource,
    ConfigType,
    Scope,
    render_value,
    resolve_topic_configs,
)
from pybroker.config.broker_defs import broker_key
from pybroker.config.group_defs import OF_BROKER
from pybroker.config.topic_defs import broker_default


class ConfigSynonym(NamedTuple):
    """One source of a setting's value."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One described setting. A sensitive value is None."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    documentation: str


def topic_entries(own: Mapping[str, str], config: BrokerConfig) -> list[ConfigEntry]:
    """Return all settings of a topic with its own settings `own` on a broker with `config`."""
    entries = []
    for name, key in TOPIC_SETTINGS.items():
        if key.internal and name not in own:
            continue
        synonyms = []
        if name in own:
            synonyms.append(ConfigSynonym(name, own[name], ConfigSource.DYNAMIC_TOPIC_CONFIG))
        if name in BROKER_SYNONYM:
            synonyms += _occurrences(BROKER_SYNONYM[name], config)
        value = own[name] if name in own else broker_default(name, config)
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG if name in own else _deciding(BROKER_SYNONYM.get(name), config)
        entries.append(_entry(key, value, False, source, synonyms))
    return entries


def group_entries(own: Mapping[str, str], config: BrokerConfig) -> list[ConfigEntry]:
    """Return all settings of a group with its own settings `own` on a broker with `config`."""
    entries = []
    for name, key in GROUP_SETTINGS.items():
        if key.internal and name not in own:
            continue
        if name not in OF_BROKER:
            text = own.get(name) or render_value(key.default)
            source = ConfigSource.DYNAMIC_GROUP_CONFIG if name in own else ConfigSource.DEFAULT_CONFIG
            entries.append(_entry(key, text, False, source, [ConfigSynonym(name, text, source)] if name in own else []))
            continue
        default = OF_BROKER[name].default
        synonyms = _occurrences(default, config)
        if name in own:
            synonyms.insert(0, ConfigSynonym(name, own[name], ConfigSource.DYNAMIC_GROUP_CONFIG))
        value = own[name] if name in own else render_value(config[default])
        source = ConfigSource.DYNAMIC_GROUP_CONFIG if name in own else _deciding(default, config)
        entries.append(_entry(key, value, False, source, synonyms))
    return entries


def client_metrics_entries(own: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a client metrics subscription."""
    entries = []
    for name, key in CLIENT_METRICS_SETTINGS.items():
        source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG if name in own else ConfigSource.DEFAULT_CONFIG
        value = own[name] if name in own else render_value(key.default)
        synonyms = [ConfigSynonym(name, value, source)] if name in own else []
        entries.append(_entry(key, value, False, source, synonyms))
    return entries


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Return all settings of this broker."""
    entries = []
    for name, key in BROKER_SETTINGS.items():
        if key.internal:
            continue
        synonyms = _occurrences(name, config)
        source = next((synonym.source for synonym in synonyms if synonym.name == name), ConfigSource.DEFAULT_CONFIG)
        read_only = key.scope is Scope.READ_ONLY
        entries.append(_entry(key, render_value(config[name]), read_only, source, synonyms))
    source = ConfigSource.DYNAMIC_BROKER_CONFIG
    for name, text in config.layer(source).items():
        of_listener = None if name in BROKER_SETTINGS else broker_key(name)
        if of_listener is not None:
            entries.append(_entry(of_listener, text, False, source, [ConfigSynonym(name, text, source)]))
    return sorted(entries)


def cluster_default_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Return the settings that are set for all brokers (empty resource name). Like Kafka, omit defaults."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _entry(BROKER_SETTINGS[name], text, False, source, [ConfigSynonym(name, text, source)])
        for name, text in sorted(config.layer(source).items())
        if name in BROKER_SETTINGS
    ]


def logger_entries(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the loggers and their levels (KIP-412)."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(name, level, False, source, False, (), ConfigType.STRING, "Level of this logger.")
        for name, level in levels.items()
    ]


def chosen(entries: list[ConfigEntry], names: list[str] | None) -> list[ConfigEntry]:
    """Return the entries with these names, or all entries if `names` is None."""
    if not names:
        return entries
    requested = set(names)
    return [entry for entry in entries if entry.name in requested]


def _occurrences(name: str, config: BrokerConfig) -> list[ConfigSynonym]:
    return [ConfigSynonym(member, text, source) for source, member, text in config.occurrences(name)]


def _deciding(synonym: str | None, config: BrokerConfig) -> ConfigSource:
    """Return the source of a topic's value. For a family of broker settings (hours, minutes, ms), return the source of
    the effective setting."""
    found = config.first_of_family(synonym) if synonym is not None else None
    if found is None:
        return ConfigSource.DEFAULT_CONFIG
    sources = (source for source, member, _ in config.occurrences(found[0]) if member == found[0])
    return next(sources, ConfigSource.DEFAULT_CONFIG)


def _entry(
    key: ConfigKey, value: str | None, read_only: bool, source: ConfigSource, synonyms: list[ConfigSynonym]
) -> ConfigEntry:
    if key.sensitive:
        value = None
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    documentation = key.documentation
    family = SYNONYMS.get(key.name, ())
    if len(family) > 1 and key.name == family[0]:
        documentation = f"{documentation} Goes over {', '.join(family[1:])}."
    return ConfigEntry(key.name, value, read_only, source, key.sensitive, tuple(synonyms), key.type, documentation)


class TopicSetting(NamedTuple):
    """The effective value of one topic setting."""

    name: str
    value: str
    source: int
    """`ConfigSource` of the layer with the highest precedence that sets it."""
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
            sources = config.occurrences(synonym) if synonym is not None else []
            source = sources[0][0] if sources else ConfigSource.DEFAULT_CONFIG
        settings.append(TopicSetting(name, value, int(source), key.sensitive))
    return settings
