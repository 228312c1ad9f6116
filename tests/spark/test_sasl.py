"""A broker that requires a login."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.jobs import Jobs
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.wire import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER, PASSWORD = "loader", "loader-secret"
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[BrokerProcess, str]]:
    """pybroker with a PLAINTEXT listener, and the address of a SCRAM listener."""
    broker = PybrokerProcess(tmp_path / "guarded")
    address = f"127.0.0.1:{free_port()}"
    broker.settings.update(
        {
            "listeners": f"PLAINTEXT://{broker.bootstrap},LOGIN://{address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.login.scram-sha-512.sasl.jaas.config": LOGIN,
        }
    )
    broker.start()
    yield broker, address
    broker.kill()


def test_a_job_logs_in_by_scram(spark: SparkSession, guarded: tuple[BrokerProcess, str], topic: str) -> None:
    """A batch in both directions with `kafka.sasl.*`; a wrong password is reported at once, and no message contains a
    password."""
    broker, address = guarded
    options = ["--mechanism", "SCRAM-SHA-512", "--password-file", "-", "--bootstrap-server", broker.bootstrap]
    command = [sys.executable, "-m", "pybroker", "users", "add", USER, *options]
    subprocess.run(command, input=PASSWORD, text=True, check=True, capture_output=True, timeout=120)
    Jobs(spark, broker.bootstrap).create(topic)
    jobs = Jobs(spark, address)
    login = {
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": "SCRAM-SHA-512",
        "kafka_sasl_username": USER,
        "kafka_sasl_password": PASSWORD,
    }
    for mode in ("exactly-once", "append"):
        jobs.write(jobs.rows(200, mode), topic, mode=mode, **login)
    assert len(jobs.values(topic, **login)) == 400
    with pytest.raises(Exception, match=r"SASL_AUTHENTICATION_FAILED|[Aa]uthentication") as refused:
        jobs.values(topic, **{**login, "kafka_sasl_password": "wrong-secret"})
    assert "wrong-secret" not in str(refused.value)
