"""Native code accepts every value that the setting's check accepts; otherwise a change would be stored without effect.
"""

from __future__ import annotations

import pytest

from pybroker.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig, ConfigDef, InvalidValue, render_value
from pybroker.native import NativeBroker, NativePartitions

NUMBERS = [str(sign * (1 << bits) + step) for bits in (0, 15, 31, 32, 63) for sign in (-1, 1) for step in (-1, 0, 1)]
TEXTS = ["", "*", "none", "a", "99999999999999999999", "-99999999999999999999", "1e400", "1e300", "0.5", "٣"]
PAIRS = ["0:1", "0:99999999999999999999", "99999999999999999999:1", "2147483648:1", "٣:1", "1:2:3", "1:", "a:1", "0:1,"]
HOSTS = ["127.0.0.1:1", "::1:7", "[::1]:7", "127.0.0.1:-5", "127.0.0.1:2147483647", "127.0.0.1:2147483648", "1.2.3:4"]
CANDIDATES = [*NUMBERS, *TEXTS, *PAIRS, *HOSTS, "127.0.0.1:99999999999", "true", "gzip", "delete,compact"]


def accepted(table: ConfigDef, name: str) -> list[str]:
    """Return the canonical texts of the candidates that the setting accepts."""
    found = []
    for candidate in CANDIDATES:
        try:
            found.append(render_value(table[name].parse(candidate)) or "")
        except InvalidValue:
            continue
    return found


@pytest.mark.parametrize("name", list(BROKER_SETTINGS))
def test_settings_of_brokers(name: str) -> None:
    for text in accepted(BROKER_SETTINGS, name):
        NativeBroker.check_settings(BrokerConfig({name: text}).native_settings())


@pytest.mark.parametrize("name", list(TOPIC_SETTINGS))
def test_settings_of_topics(name: str) -> None:
    for text in accepted(TOPIC_SETTINGS, name):
        NativePartitions.check_topic_config({name: text})
