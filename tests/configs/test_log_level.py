"""How much the log says changes while the broker runs, by `pybroker configs` and for single loggers by Kafka's tool."""

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
    command = [sys.executable, "-m", "pybroker", "configs", "--bootstrap-server", broker.bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_told(broker: BrokerProcess, retention_bytes: int) -> bool:
    """Whether the log has a line (at INFO) for a change of settings. It is written before the change is answered."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert alter(admin, BROKER, "1", ("log.retention.bytes", SET, str(retention_bytes))) == 0
    return f"log.retention.bytes={retention_bytes}" in broker.console.read_text()


@pytest.mark.parametrize("whose", [("--broker", "1"), ("--entity-type", "brokers", "--entity-default")])
def test_log_level_changes_while_the_broker_runs(start_broker: StartBroker, whose: tuple[str, ...]) -> None:
    broker = start_broker()
    assert is_told(broker, 1_000_001)
    configs(broker, *whose, "--alter", "--add-config", "log.level=WARN")
    assert not is_told(broker, 1_000_002)
    assert "log.level" in configs(broker, *whose, "--describe")
    broker.restart()
    assert not is_told(broker, 1_000_003), "it is stored"
    configs(broker, *whose, "--alter", "--delete-config", "log.level")
    assert is_told(broker, 1_000_004)
