"""The tables are consistent with each other and with their descriptions."""

from __future__ import annotations

import pytest

from pybroker.config import (
    BROKER_SETTINGS,
    BROKER_SYNONYM,
    SYNONYMS,
    TOPIC_SETTINGS,
    ConfigDef,
    nearest_name,
    render_value,
)
from pybroker.config.foreign_settings import HARMLESS, REFUSED


@pytest.mark.parametrize("table", [BROKER_SETTINGS, TOPIC_SETTINGS], ids=["broker", "topic"])
def test_every_default_is_valid_and_documented(table: ConfigDef) -> None:
    for key in table.values():
        assert key.documentation.endswith("."), key.name
        if key.default is not None:
            assert key.parse(render_value(key.default) or "") == key.default, key.name


def test_synonyms_exist() -> None:
    assert set(BROKER_SYNONYM.values()) <= set(BROKER_SETTINGS)
    assert set(BROKER_SYNONYM) <= set(TOPIC_SETTINGS)
    assert {name for family in SYNONYMS.values() for name in family} <= set(BROKER_SETTINGS)


def test_a_setting_is_in_one_table_only() -> None:
    assert not set(BROKER_SETTINGS) & HARMLESS
    assert not set(BROKER_SETTINGS) & set(REFUSED)
    assert not HARMLESS & set(REFUSED)


def test_a_name_cannot_be_defined_twice() -> None:
    key = BROKER_SETTINGS["num.partitions"]
    with pytest.raises(ValueError, match=r"num\.partitions is defined twice"):
        ConfigDef([key, key])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("log.retention.hour", "log.retention.hours"),
        ("lisetners", "listeners"),
        ("nod.id", "node.id"),
        ("completely.different.thing", None),
        ("confluent.support.metrics.enable", None),
        ("zone.id", None),
        ("port", None),
    ],
)
def test_nearest_name(typed: str, meant: str | None) -> None:
    assert nearest_name(typed, BROKER_SETTINGS) == meant
