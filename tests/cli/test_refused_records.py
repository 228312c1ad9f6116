"""Commands that write records report each record that was not written, and then do not end with exit code 0."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

LIMIT_S = 120.0


def created(broker: BrokerProcess, partitions: int = 1, **config: str) -> str:
    """A new topic."""
    name = unique("refused")
    settings = {key.replace("_", "."): value for key, value in config.items()}
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
    return name


def count(broker: BrokerProcess, topic: str, partitions: int) -> int:
    with blocking.Consumer({"bootstrap.servers": broker.bootstrap}) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, index) for index in range(partitions)])
    return sum(ends.values())


def run(broker: BrokerProcess, *arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, [*arguments, "--bootstrap-server", broker.bootstrap], input=stdin)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_line_that_the_broker_refuses_is_named(broker: BrokerProcess, tmp_path: Path, partitions: int) -> None:
    topic = created(broker, partitions, max_message_bytes="20000")
    rows = tmp_path / "rows"
    rows.write_bytes(b"%s%s\n%s" % (b"small\n" * 5_000, b"x" * 30_000, b"small\n" * 5_000))
    done = run(broker, "produce", topic, "--file", str(rows))
    assert done.exit_code == 1
    written = count(broker, topic, partitions)
    assert 5_000 <= written <= 10_000
    assert done.stderr.startswith(f"Error: {rows}, line 5001 was not written: MESSAGE_TOO_LARGE")
    assert f"Wrote {written} records to {topic}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert ("nothing was sent after" in done.stderr) == (written < 10_000)


def test_json_has_the_refusal_too(broker: BrokerProcess) -> None:
    topic = created(broker, max_message_bytes="20000")
    done = run(broker, "produce", topic, "--json", stdin=b'{"value": "a"}\n{"value": "%s"}\n' % (b"x" * 30_000))
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["rows"], told["refused"]) == (1, 1)
    assert told["error"].startswith("stdin, line 2 was not written: MESSAGE_TOO_LARGE")


def test_a_line_that_the_client_refuses_is_named_with_the_number_written(broker: BrokerProcess) -> None:
    topic = created(broker)
    done = run(broker, "produce", topic, stdin=b"small\n" * 3 + b"x" * 2_000_000 + b"\nsmall\n")
    assert done.exit_code == 1
    assert "stdin, line 4 was not written: MESSAGE_TOO_LARGE" in done.stderr
    assert f"Wrote 3 records to {topic}; nothing was sent after stdin, line 4." in done.stderr


def test_waiting_is_explained_after_five_seconds(broker: BrokerProcess) -> None:
    topic = created(broker, min_insync_replicas="2")
    command = [sys.executable, "-m", "pybroker", "produce", topic, "--bootstrap-server", broker.bootstrap]
    limit = ["--command-property", "delivery.timeout.ms=6000"]
    done = subprocess.run([*command, *limit], input=b"a\nb\n", capture_output=True, timeout=LIMIT_S, check=False)
    waiting, *_, failed = done.stderr.decode().splitlines()
    assert f"2 records for {topic}-0 waited 5 s" in waiting
    assert "NOT_ENOUGH_REPLICAS" in waiting
    assert "stdin, line 1 was not written" in failed
    assert "NOT_ENOUGH_REPLICAS" in failed
    assert f"Wrote 0 records to {topic}" in failed
    assert done.returncode == 1


@pytest.mark.parametrize("size", ["100", "100000"])
@pytest.mark.parametrize("what", ["produce", "e2e"])
def test_a_bench_fails_with_its_records(broker: BrokerProcess, what: str, size: str) -> None:
    topic = created(broker, max_message_bytes="150")
    done = run(broker, "bench", what, "--topic", topic, "--records", "3", "--size", size)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("Error: MESSAGE_TOO_LARGE"), done.stderr
