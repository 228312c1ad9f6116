"""The log level changes while the broker runs, for all and for single loggers, through `pybroker configs`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient

from tests.configs.test_live import BROKER, SET, alter
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

LIMIT_S = 120.0


def configs(broker: BrokerProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "pybroker", "configs", *arguments, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_told(broker: BrokerProcess, retention_bytes: int) -> bool:
    """Return whether the log has a line (at INFO) for a change of settings. The line is written before the response."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert alter(admin, BROKER, "1", ("log.retention.bytes", SET, str(retention_bytes))) == 0
    return f"log.retention.bytes={retention_bytes}" in broker.console.read_text()


@pytest.mark.parametrize("whose", [("--broker", "1"), ("--entity-type", "brokers", "--entity-default")])
def test_log_level_changes_while_the_broker_runs(start_broker: StartBroker, whose: tuple[str, ...]) -> None:
    broker = start_broker()
    assert is_told(broker, 1_000_001)
    configs(broker, "alter", *whose, "--add-config", "log.level=WARN")
    assert not is_told(broker, 1_000_002)
    assert "log.level" in configs(broker, "describe", *whose)
    broker.restart()
    assert not is_told(broker, 1_000_003), "it is stored"
    configs(broker, "alter", *whose, "--delete-config", "log.level")
    assert is_told(broker, 1_000_004)


def test_one_logger_says_less_until_the_next_start(start_broker: StartBroker) -> None:
    broker = start_broker()
    whose = ("--entity-type", "broker-loggers", "--entity-name", "1")
    assert is_told(broker, 1_000_001)
    configs(broker, "alter", *whose, "--add-config", "pybroker.broker.admin.configs=WARN")
    assert not is_told(broker, 1_000_002)
    assert "pybroker.broker.admin.configs" in configs(broker, "describe", *whose)
    configs(broker, "alter", *whose, "--delete-config", "pybroker.broker.admin.configs")
    assert is_told(broker, 1_000_003)
    configs(broker, "alter", *whose, "--add-config", "pybroker.broker.admin.configs=WARN")
    broker.restart()
    assert is_told(broker, 1_000_004), "a level is not stored"
