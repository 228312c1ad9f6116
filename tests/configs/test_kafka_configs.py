"""Kafka's own tool `kafka-configs`: its output and its exit. Every case also holds for Apache Kafka
(`--broker=kafka`)."""

from __future__ import annotations

import re
import uuid

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import ToolError, run_tool

BROKER = ("--entity-type", "brokers", "--entity-name", "1")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
LOGGERS = ("--entity-type", "broker-loggers", "--entity-name", "1")

TUNED_WHILE_RUNNING = {
    "background.threads": "12",
    "group.coordinator.cached.buffer.max.bytes": "2000000",
    "log.cleaner.io.buffer.load.factor": "0.8",
    "log.cleaner.io.buffer.size": "600000",
    "num.io.threads": "9",
    "num.replica.fetchers": "2",
    "remote.fetch.max.wait.ms": "600",
    "transaction.partition.verification.enable": "false",
}
"""Settings that this broker accepts without effect, because operators and their tools set them anyway."""


def configs(broker: BrokerProcess, *arguments: str) -> str:
    return run_tool("kafka-configs", ["--bootstrap-server", broker.bootstrap, *arguments])


def add(broker: BrokerProcess, whose: tuple[str, ...], settings: str) -> str:
    return configs(broker, *whose, "--alter", "--add-config", settings)


def refusal(broker: BrokerProcess, whose: tuple[str, ...], settings: str) -> str:
    """Return class and text of the error with which the tool ended."""
    with pytest.raises(ToolError) as caught:
        add(broker, whose, settings)
    found = re.search(r"org\.apache\.kafka\.common\.errors\.(.*)", str(caught.value))
    assert found is not None, caught.value
    return found[1]


def shown(broker: BrokerProcess, whose: tuple[str, ...], *more: str) -> dict[str, str]:
    """Return setting → value, as `--describe` shows them."""
    lines = configs(broker, *whose, "--describe", *more).splitlines()
    pairs = (re.match(r"  (\S+)=(.*) sensitive=(?:true|false) synonyms=", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_what_kafka_changes_while_it_runs_is_taken_and_shown(broker: BrokerProcess) -> None:
    settings = ",".join(f"{name}={value}" for name, value in TUNED_WHILE_RUNNING.items())
    try:
        assert add(broker, BROKER, settings).strip() == "Completed updating config for broker 1."
        assert shown(broker, BROKER) == TUNED_WHILE_RUNNING
        told = configs(broker, *BROKER, "--describe")
        assert (
            "  num.io.threads=9 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:num.io.threads=9, "
            "DEFAULT_CONFIG:num.io.threads=8}" in told.splitlines()
        )
    finally:
        configs(broker, *BROKER, "--alter", "--delete-config", ",".join(TUNED_WHILE_RUNNING))
    assert shown(broker, BROKER) == {}


def test_defaults_of_all_brokers(broker: BrokerProcess) -> None:
    before = shown(broker, ALL_BROKERS)
    try:
        done = add(broker, ALL_BROKERS, "log.cleaner.io.buffer.size=700000,log.retention.ms=20000000")
        assert done.strip() == "Completed updating default config for brokers in the cluster."
        changed = {"log.cleaner.io.buffer.size": "700000", "log.retention.ms": "20000000"}
        assert shown(broker, ALL_BROKERS) == before | changed
    finally:
        configs(broker, *ALL_BROKERS, "--alter", "--delete-config", "log.cleaner.io.buffer.size,log.retention.ms")
    assert shown(broker, ALL_BROKERS) == before


REFUSED = [
    ("num.partitions=3", "InvalidRequestException: Cannot update these configs dynamically: [num.partitions]"),
    (
        "request.timeout.ms=1,num.io.threads=9",
        "InvalidRequestException: Cannot update these configs dynamically: [request.timeout.ms]",
    ),
    ("num.io.threads=0", "InvalidRequestException: Invalid value 0 for configuration num.io.threads: "),
    ("max.connections.per.ip.overrides=x", "InvalidRequestException: "),
    ("ssl.principal.mapping.rules=DEFAULT", "InvalidRequestException: "),
]


def test_what_is_refused_for_brokers(broker: BrokerProcess) -> None:
    for settings, error in REFUSED:
        assert refusal(broker, BROKER, settings).startswith(error)
    assert shown(broker, BROKER) == {}, "nothing of it is stored"


def test_what_is_fixed_at_start_can_be_taken_back(broker: BrokerProcess) -> None:
    """The setting has no dynamic value, so the request changes nothing."""
    configs(broker, *BROKER, "--alter", "--delete-config", "num.partitions")


def test_all_settings_of_a_broker(broker: BrokerProcess) -> None:
    everything = shown(broker, BROKER, "--all")
    assert everything["log.dirs"] == str(broker.data_dir)
    assert {"num.io.threads", "log.cleaner.io.buffer.size", "num.partitions"} <= set(everything)


def test_settings_of_a_topic(broker: BrokerProcess) -> None:
    name = f"configs-{uuid.uuid4().hex[:8]}"
    topic = ("--entity-type", "topics", "--entity-name", name)
    run_tool("kafka-topics", ["--bootstrap-server", broker.bootstrap, "--create", "--topic", name])
    assert add(broker, topic, "retention.ms=1000,cleanup.policy=[compact,delete]").strip() == (
        f"Completed updating config for topic {name}."
    )
    assert shown(broker, topic) == {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    assert refusal(broker, topic, "retention.ms=x").startswith("InvalidConfigurationException: ")
    configs(broker, *topic, "--alter", "--delete-config", "retention.ms,no.such")
    assert shown(broker, topic) == {"cleanup.policy": "compact,delete"}


def test_levels_of_loggers(broker: BrokerProcess) -> None:
    before = shown(broker, LOGGERS)["root"]
    try:
        assert add(broker, LOGGERS, "root=TRACE").strip() == "Completed updating config for broker-logger 1."
        assert shown(broker, LOGGERS)["root"] == "TRACE"
        assert refusal(broker, LOGGERS, "root=LOUD") == (
            "InvalidConfigurationException: Cannot set the log level of root to LOUD as it is not a supported log "
            "level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
        )
        with pytest.raises(ToolError, match=r"Invalid broker logger\(s\): no\.such"):
            add(broker, LOGGERS, "no.such=DEBUG")
    finally:
        add(broker, LOGGERS, f"root={before}")
