"""Removal of secrets from settings and texts before they leave the machine. The value of a setting is hidden unless the
setting is known to be harmless. Known secrets are removed from every other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pybroker.config import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigSource,
    render_value,
)
from pybroker.config.listener_settings import listener_setting

HIDDEN = "[hidden]"
SECRET_CHARACTERS_MIN = 4
"""Minimum length of a secret that is searched for in texts. A shorter secret occurs in many words; only its setting is
hidden."""

_IN_URL = re.compile(r"(?<=//)[^/@\s:]+:[^/@\s]+(?=@)")
_JAAS_VALUE = re.compile(r"""[=]\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_TABLES = (BROKER_SETTINGS, TOPIC_SETTINGS, GROUP_SETTINGS, CLIENT_METRICS_SETTINGS)


def may_be_shown(name: str) -> bool:
    """Return whether the value of a setting is harmless: the setting is known and not sensitive."""
    of_listener = listener_setting(name)
    if of_listener is not None:
        return not of_listener.sensitive
    known = [table[name] for table in _TABLES if name in table]
    return bool(known) and not any(key.sensitive for key in known)


def shown(name: str, text: str | None) -> str | None:
    """Return a setting's text, or HIDDEN."""
    return text if text is None or may_be_shown(name) else HIDDEN


def settings(config: BrokerConfig) -> dict[str, dict[str, Any]]:
    """Return name → value and source of every setting, including those of single listeners."""
    document: dict[str, dict[str, Any]] = {}
    for name, value in config.items():
        source = next((source for source, member, _ in config.occurrences(name) if member == name), None)
        named = (source or ConfigSource.DEFAULT_CONFIG).name
        document[name] = {"value": shown(name, render_value(value)), "source": named}
    for name, text in config.listener_settings.items():
        document[name] = {"value": shown(name, text), "source": ConfigSource.STATIC_BROKER_CONFIG.name}
    return document


def secrets(config: BrokerConfig) -> set[str]:
    """Return the secret texts of the settings, including those within JAAS entries."""
    layers = (config.layer(source) for source in list(ConfigSource)[1:4])
    return _worth_hiding(text for layer in (*layers, config.listener_settings) for text in _secret_values(layer))


def secrets_of_client(settings: Mapping[str, Any]) -> set[str]:
    """Return the secret texts of a client's settings."""
    return _worth_hiding(str(text) for name, text in settings.items() if name.endswith(_OF_CLIENTS))


_OF_CLIENTS = ("password", "jaas.config", "keystore.key", "client.secret")


def _worth_hiding(secrets: Iterable[str]) -> set[str]:
    texts = list(secrets)
    inside = [value for text in texts for found in _JAAS_VALUE.findall(text) for value in found]
    lines = [line for text in texts for line in text.splitlines()]
    return {each.strip() for each in (*texts, *inside, *lines) if len(each.strip()) >= SECRET_CHARACTERS_MIN}


def _secret_values(layer: Mapping[str, str]) -> Iterator[str]:
    return (text for name, text in layer.items() if text and not may_be_shown(name))


class Cleaner:
    """Removes secrets from texts: the given secrets, and logins within URLs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Replace the longest secrets first. If a part of a longer secret were replaced first, the rest of it would stay
        # visible.
        known = sorted({form for each in secrets for form in _forms(each)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        text = _IN_URL.sub(HIDDEN, text)
        return text if self._known is None else self._known.sub(HIDDEN, text)


def _forms(secret: str) -> set[str]:
    """Return the secret as it is, in JSON's spelling and in Python's."""
    escaped = secret.encode("unicode_escape").decode()
    return {secret, escaped, secret.replace("\\", "\\\\").replace('"', '\\"'), escaped.replace('"', '\\"')}
