"""No setting is accepted without effect: for each name in the tables, some code reads it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pybroker.config import BROKER_SETTINGS, BROKER_SYNONYM, SYNONYMS, TOPIC_SETTINGS
from pybroker.config.broker_without_effect import WITHOUT_EFFECT
from pybroker.config.group_defs import OF_BROKER

ROOT = Path(__file__).parents[3]
TABLES = {
    "broker_network.py",
    "broker_log.py",
    "broker_groups.py",
    "foreign_settings.py",
    "topic_defs.py",
}

# Setting → why no code needs to read it.
BY_NATURE = {
    "internal.segment.bytes": "becomes segment.bytes when a topic's settings are resolved",
    "compression.lz4.level": "lz4 has one level here; the value is checked and accepted, as files have it",
    "group.coordinator.rebalance.protocols": "its only value is what is served",
}

# Settings whose names the reading code builds from a prefix.
PREFIXED = {"offsets.topic.num.partitions", "offsets.topic.replication.factor"}

# Settings that apply through a group's own setting (`effective_value`).
OF_GROUPS = {name for broker in OF_BROKER.values() for name in broker if name is not None}

# Settings whose description says that they change nothing.
WITHOUT = {key.name for key in WITHOUT_EFFECT}


@cache
def code() -> str:
    python = [path for path in (ROOT / "pybroker").rglob("*.py") if path.name not in TABLES]
    rust = [path for path in (ROOT / "native").rglob("*.rs") if "tests" not in path.parts and path.name != "tests.rs"]
    return "\n".join(path.read_text() for path in (*python, *rust))


# Broker settings that act through the topic setting whose default they are.
DEFAULTS_OF_TOPICS = {member for name in BROKER_SYNONYM.values() for member in SYNONYMS.get(name, (name,))}


READ = set(BROKER_SETTINGS) - DEFAULTS_OF_TOPICS - set(BY_NATURE) - PREFIXED - OF_GROUPS - WITHOUT


@pytest.mark.parametrize("name", sorted(READ))
def test_broker_setting(name: str) -> None:
    assert f'"{name}"' in code()


@pytest.mark.parametrize("name", sorted(set(TOPIC_SETTINGS) - set(BY_NATURE)))
def test_topic_setting(name: str) -> None:
    assert f'"{name}"' in code()
