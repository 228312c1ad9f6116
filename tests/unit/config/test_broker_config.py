"""Layers, families and listeners of a broker's settings, and the topic settings that result from them."""

from __future__ import annotations

import pytest

from pybroker.config import (
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigError,
    ConfigSource,
    resolve_topic_configs,
    validate_topic_configs,
)


def test_the_strongest_layer_wins() -> None:
    config = BrokerConfig({"min.insync.replicas": "2"})
    config.set_dynamic(cluster={"min.insync.replicas": "3"}, broker={})
    assert config["min.insync.replicas"] == 3
    config.set_dynamic(cluster={"min.insync.replicas": "3"}, broker={"min.insync.replicas": "4"})
    assert config["min.insync.replicas"] == 4
    assert config.occurrences("min.insync.replicas") == [
        (ConfigSource.DYNAMIC_BROKER_CONFIG, "min.insync.replicas", "4"),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "min.insync.replicas", "3"),
        (ConfigSource.STATIC_BROKER_CONFIG, "min.insync.replicas", "2"),
        (ConfigSource.DEFAULT_CONFIG, "min.insync.replicas", "1"),
    ]
    config.set_dynamic(cluster={}, broker={})
    assert config["min.insync.replicas"] == 2


def test_with_dynamic_leaves_the_original_alone() -> None:
    config = BrokerConfig()
    assert config.with_dynamic(cluster={"log.segment.bytes": "2097152"}, broker={})["log.segment.bytes"] == 2097152
    assert config["log.segment.bytes"] == 1073741824


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, "604800000"),
        ({"log.retention.hours": "1"}, "3600000"),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "120000"),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, "3"),
        ({"log.retention.hours": "-1"}, "-1"),
    ],
)
def test_the_finest_unit_wins(static: dict[str, str], retention_ms: str) -> None:
    assert resolve_topic_configs({}, BrokerConfig(static))["retention.ms"] == retention_ms


def test_resolved_topic_settings_are_whole() -> None:
    resolved = resolve_topic_configs(
        {"retention.ms": "5", "unknown.to.this.version": "x"}, BrokerConfig({"log.roll.hours": "2"})
    )
    assert set(resolved) == {name for name, key in TOPIC_SETTINGS.items() if not key.internal}
    assert resolved["retention.ms"] == "5"
    assert resolved["segment.ms"] == "7200000"
    assert resolved["flush.ms"] == "9223372036854775807"


def test_small_segments_for_tests() -> None:
    assert resolve_topic_configs({"internal.segment.bytes": "1000"}, BrokerConfig())["segment.bytes"] == "1000"


def test_an_empty_cleanup_policy_is_a_value() -> None:
    assert resolve_topic_configs({"cleanup.policy": ""}, BrokerConfig())["cleanup.policy"] == ""


def test_topic_settings_become_canonical() -> None:
    given = {
        "retention.ms": "7d",
        "cleanup.policy": "compact, delete",
        "preallocate": "TRUE",
        "remote.storage.enable": "false",
    }
    assert validate_topic_configs(given) == {
        "retention.ms": "604800000",
        "cleanup.policy": "compact,delete",
        "preallocate": "true",
    }


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("retention.mz", "1", "unknown topic setting retention.mz; did you mean retention.ms?"),
        ("retention.ms", "-2", "retention.ms=-2: must be -1 (no limit) or more"),
        ("cleanup.policy", "shred", "cleanup.policy=shred: may only contain compact, delete"),
        ("segment.bytes", "100", "segment.bytes=100: must be at least 1048576"),
        (
            "compression.type",
            "none",
            "compression.type=none: must be one of uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "remote.storage.enable",
            "true",
            "remote.storage.enable=true: only false is accepted, because tiered storage is not supported",
        ),
        ("retention.ms", None, "retention.ms: a topic setting requires a value other than null"),
    ],
)
def test_wrong_topic_settings(name: str, text: str | None, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_configs({name: text})
    assert str(caught.value) == complaint


def test_advertised_listeners() -> None:
    config = BrokerConfig(
        {"listeners": "A://127.0.0.1:0,B://[::1]:7", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    )
    told = config.advertised_listeners([("A", "127.0.0.1", 4711), ("B", "::1", 7)])
    assert [str(one) for one in told] == ["A://127.0.0.1:4711", "B://[::1]:7"]


def test_an_address_that_means_every_interface_is_told_as_the_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "broker-7")
    told = BrokerConfig({"listeners": "PLAINTEXT://:9092"}).advertised_listeners([("PLAINTEXT", "0.0.0.0", 9092)])
    assert str(told[0]) == "PLAINTEXT://broker-7:9092"


def test_native_settings_are_plain_values() -> None:
    native = BrokerConfig({"log.dirs": "/a,/b"}).native_settings()
    assert native["log.dirs"] == "/a,/b"
    assert native["log.retention.ms"] is None
    assert native["log.flush.mode"] == "commit"
    assert {type(value) for value in native.values()} <= {int, float, str, bool, type(None)}


def test_internal_topics_have_as_many_replicas_as_kafkas_in_a_cluster_and_one_alone() -> None:
    names = (
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    )
    cluster, alone = BrokerConfig({"metadata.store": "zookeeper"}), BrokerConfig()
    assert [cluster[name] for name in names] == [3, 3, 2]
    assert [alone[name] for name in names] == [1, 1, 1]
    assert [alone.occurrences(name) for name in names] == [[(ConfigSource.DEFAULT_CONFIG, name, "1")] for name in names]
