"""The results of DescribeConfigs."""

from __future__ import annotations

from pybroker.broker.admin.config_views import (
    ConfigSynonym,
    broker_entries,
    chosen,
    cluster_default_entries,
    logger_entries,
    topic_entries,
)
from pybroker.config import BrokerConfig, ConfigSource, ConfigType

S = ConfigSource


def test_a_topic_setting_with_all_that_speaks_about_it() -> None:
    config = BrokerConfig({"message.max.bytes": "2000000"})
    config.set_dynamic(cluster={"message.max.bytes": "3000000"}, broker={})
    (entry,) = chosen(topic_entries({"max.message.bytes": "1000"}, config), ["max.message.bytes"])
    assert (entry.value, entry.source, entry.type, entry.read_only) == (
        "1000",
        S.DYNAMIC_TOPIC_CONFIG,
        ConfigType.INT,
        False,
    )
    assert entry.synonyms == (
        ConfigSynonym("max.message.bytes", "1000", S.DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym("message.max.bytes", "3000000", S.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigSynonym("message.max.bytes", "2000000", S.STATIC_BROKER_CONFIG),
        ConfigSynonym("message.max.bytes", "1048588", S.DEFAULT_CONFIG),
    )


def test_the_source_is_the_member_of_a_family_that_decides() -> None:
    config = BrokerConfig({"log.retention.hours": "2"})
    (entry,) = chosen(topic_entries({}, config), ["retention.ms"])
    assert (entry.value, entry.source) == ("7200000", S.STATIC_BROKER_CONFIG)
    assert entry.synonyms[0] == ConfigSynonym("log.retention.hours", "2", S.STATIC_BROKER_CONFIG)


def test_defaults_of_a_topic() -> None:
    entries = topic_entries({}, BrokerConfig())
    assert {entry.source for entry in entries} == {S.DEFAULT_CONFIG}
    assert not any(entry.sensitive or entry.read_only for entry in entries)
    assert "internal.segment.bytes" not in {entry.name for entry in entries}
    assert all(entry.documentation for entry in entries)


def test_broker_settings() -> None:
    config = BrokerConfig({"num.partitions": "4"})
    config.set_dynamic(cluster={"log.retention.ms": "5"}, broker={"log.retention.ms": "6"})
    entries = {entry.name: entry for entry in broker_entries(config)}
    assert (entries["num.partitions"].value, entries["num.partitions"].source) == ("4", S.STATIC_BROKER_CONFIG)
    assert entries["num.partitions"].read_only
    assert not entries["log.retention.ms"].read_only
    assert (entries["log.retention.ms"].value, entries["log.retention.ms"].source) == ("6", S.DYNAMIC_BROKER_CONFIG)
    assert entries["log.retention.minutes"].value is None
    assert entries["log.retention.minutes"].source is S.DEFAULT_CONFIG
    assert "log.initial.task.delay.ms" not in entries, "internal settings are not shown"


def test_the_cluster_default_shows_only_what_is_set() -> None:
    config = BrokerConfig({"num.partitions": "4"})
    config.set_dynamic(cluster={"log.retention.ms": "5"}, broker={"log.retention.bytes": "6"})
    (entry,) = cluster_default_entries(config)
    assert (entry.name, entry.value, entry.source) == ("log.retention.ms", "5", S.DYNAMIC_DEFAULT_BROKER_CONFIG)


def test_loggers() -> None:
    (entry,) = logger_entries({"root": "INFO"})
    assert (entry.name, entry.value, entry.source) == ("root", "INFO", S.DYNAMIC_BROKER_LOGGER_CONFIG)


def test_choosing() -> None:
    entries = logger_entries({"a": "INFO", "b": "WARN"})
    assert [entry.name for entry in chosen(entries, None)] == ["a", "b"]
    assert [entry.name for entry in chosen(entries, [])] == ["a", "b"]
    assert [entry.name for entry in chosen(entries, ["b", "zzz"])] == ["b"]
