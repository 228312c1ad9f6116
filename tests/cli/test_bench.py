"""`pybroker bench`: limited runs that leave no data behind, and the format of their results."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.cli.bench.latencies import Latencies
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import create, unique
from tests.topic_ids.lives import until
from tests.wire.client import WireClient

LIMIT_S = 120.0


def bench(broker: BrokerProcess, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments, "--bootstrap-server", broker.bootstrap])


def measured(broker: BrokerProcess, *arguments: str) -> dict[str, Any]:
    done = bench(broker, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def topics(broker: BrokerProcess) -> list[str]:
    done = CliRunner().invoke(cli, ["topics", "list", "--json", "--bootstrap-server", broker.bootstrap])
    return [row["topic"] for row in json.loads(done.stdout) if row["topic"].startswith("pybroker-bench-")]


def in_order(document: dict[str, Any]) -> bool:
    told = [row["latency_ms"] for row in document["latencies"]]
    return len(told) == 5 and told == sorted(told) and told[0] > 0


def test_percentiles() -> None:
    latencies = Latencies()
    assert latencies.percentile(50) is None
    assert latencies.rows() == []
    for milliseconds in range(1, 1001):
        latencies.add(milliseconds / 1000)
    rows = {row["percentile"]: row["latency_ms"] for row in latencies.rows()}
    assert rows[50.0] == pytest.approx(500, rel=0.011)
    assert rows[99.9] == pytest.approx(999, rel=0.011)
    assert rows[100.0] == 1000
    single = Latencies()
    single.add(0.0)
    assert single.percentile(50) == single.percentile(100) == pytest.approx(1e-7)


@pytest.mark.parametrize(("acks", "compression"), [("all", "none"), ("1", "zstd"), ("0", "lz4")])
def test_produce(broker: BrokerProcess, acks: str, compression: str) -> None:
    with_these = ("--acks", acks, "--compression", compression)
    document = measured(broker, "produce", "--records", "5000", "--size", "200", "--partitions", "3", *with_these)
    assert (document["what"], document["records"], document["bytes"]) == ("produce", 5000, 1_000_000)
    # Seconds have three decimals, and a fast machine needs few seconds.
    told, rounded = document["seconds"], 0.0006
    assert 5000 / (told + rounded) <= document["records_per_second"] <= 5000 / max(told - rounded, 1e-6)
    assert in_order(document)
    assert topics(broker) == []


def test_produce_at_a_rate_and_for_a_time(broker: BrokerProcess) -> None:
    document = measured(broker, "produce", "--records", "300", "--rate", "600")
    assert document["records"] == 300
    assert document["seconds"] > 0.4
    document = measured(broker, "produce", "--seconds", "0.2", "--size", "1000")
    assert document["records"] > 0
    assert document["seconds"] >= 0.2


def test_fetch_reads_again_and_again_what_was_written(broker: BrokerProcess) -> None:
    document = measured(broker, "fetch", "--records", "3000", "--size", "100", "--partitions", "2")
    assert (document["records"], document["bytes"]) == (3000, 300_000)
    assert in_order(document)
    assert topics(broker) == []
    # The topic already exists: its five records are read repeatedly.
    name = unique("read")
    with WireClient(broker.port) as client:
        create(client, name)
    assert bench(broker, "produce", "--records", "5", "--topic", name).exit_code == 0
    document = measured(broker, "fetch", "--records", "23", "--topic", name)
    assert (document["records"], document["bytes"]) == (23, 2300)


def test_e2e_counts_from_when_a_record_was_due(broker: BrokerProcess) -> None:
    document = measured(broker, "e2e", "--records", "200", "--rate", "400", "--size", "16", "--partitions", "2")
    assert (document["records"], document["latencies_count"]) == (200, 200)
    assert document["seconds"] > 0.4
    assert in_order(document)
    assert topics(broker) == []


def test_e2e_in_a_topic_that_has_records(broker: BrokerProcess) -> None:
    name = unique("busy")
    with WireClient(broker.port) as client:
        create(client, name)
    assert bench(broker, "produce", "--records", "50", "--topic", name).exit_code == 0
    document = measured(broker, "e2e", "--records", "10", "--rate", "100", "--topic", name)
    assert document["latencies_count"] == 10


def test_the_table(broker: BrokerProcess) -> None:
    done = bench(broker, "--produce", "--records", "100")
    assert done.exit_code == 0, done.output
    assert "produce: 100 records of 100 bytes in" in done.stdout
    assert [word for word in ("p50", "p90", "p99", "p99.9", "max") if word not in done.stdout] == []


def test_what_cannot_be_measured(broker: BrokerProcess) -> None:
    missing = bench(broker, "fetch", "--topic", unique("missing"), "--records", "1")
    assert missing.exit_code == 1
    assert "There is no topic" in missing.stderr
    empty = unique("empty")
    with WireClient(broker.port) as client:
        create(client, empty)
    nothing = bench(broker, "fetch", "--topic", empty, "--records", "1")
    assert nothing.exit_code == 1
    assert "has no records" in nothing.stderr
    too_large = bench(broker, "produce", "--records", "1", "--size", "4000000")
    assert too_large.exit_code == 1
    assert topics(broker) == [], "also after a failure"


def test_the_bar_and_an_interrupt(broker: BrokerProcess) -> None:
    """On a terminal there is a bar. Ctrl-C ends a run, which removes its topic."""
    command = [sys.executable, "-m", "pybroker", "bench", "produce", "--seconds", "600", "--rate", "100"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap], stdout=subprocess.DEVNULL, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    ) as process:
        os.close(theirs)
        seen = b""
        while b" records, " not in seen:
            seen += os.read(ours, 4096)
        assert len(topics(broker)) == 1
        process.send_signal(signal.SIGINT)
        try:
            while os.read(ours, 4096):
                pass
        except OSError:
            pass  # the other end is closed
        assert process.wait(LIMIT_S) != 0
    os.close(ours)
    until(lambda: topics(broker) == [], "the topic is removed")
