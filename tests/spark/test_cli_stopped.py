"""What is left of `pybroker ingest load` and `archive` that SIGINT or SIGTERM ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka as ck
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pybroker.cli.ingest import _Staged
from pybroker.spark import ingest as steps
from pybroker.spark.cluster import Cluster
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

LIMIT_S = 300
ROWS, GROUPS = 1_000_000, 50
"""More than are loaded in many minutes; they are equal, so the file is small."""


def _command(broker: BrokerProcess, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pybroker", *arguments, "--master", "local[1]", "--bootstrap-server", broker.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _until(command: subprocess.Popen[str], what: Callable[[], object]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not what():
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _ended(command: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """A terminal sends SIGINT to all processes, others send SIGTERM to one."""
    try:
        if number == signal.SIGINT:
            os.killpg(command.pid, number)
        else:
            command.send_signal(number)
        out, err = command.communicate(timeout=LIMIT_S)
    finally:
        command.kill()
    return command.returncode, out, err


def _children(command: subprocess.Popen[str]) -> bool:
    return any(path.read_text().strip() for path in Path(f"/proc/{command.pid}/task").glob("*/children"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_load_that_is_stopped_leaves_nothing(broker: BrokerProcess, tmp_path: Path, number: signal.Signals) -> None:
    """Its ingest is aborted, which one line says."""
    topic = f"load-stopped-{number.name}"
    Confluent(broker.bootstrap).create_topic(topic, 1)
    table = pa.table({"text": pa.array(["x" * 100]).take(pa.array([0] * ROWS, pa.int32()))})
    with pq.ParquetWriter(tmp_path / "rows.parquet", table.schema) as file:
        for _ in range(GROUPS):
            file.write_table(table)
    cluster = Cluster({"bootstrap.servers": broker.bootstrap})
    load = ("ingest", "load", str(tmp_path / "rows.parquet"), "--format", "parquet", "--topic", topic)
    command = _command(broker, *load, "--ingest-id", topic)
    _until(command, lambda: any(each.bytes for each in steps.listed(cluster, ingest_id=topic)))
    said = f"stopped; ingest {topic} was aborted, nothing is in the topic\n"
    assert _ended(command, number) == (128 + number, "", said)
    assert steps.listed(cluster, ingest_id=topic) == []
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    assert consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=60) == (0, 0)
    consumer.close()


def test_a_load_that_is_decided_stays(broker: BrokerProcess) -> None:
    """Who stops it then is told; and an ingest that this load has not begun is left alone."""
    Confluent(broker.bootstrap).create_topic("load-decided", 1)
    cluster = Cluster({"bootstrap.servers": broker.bootstrap})
    topic_id = cluster.topics_named(["load-decided"])["load-decided"].id
    staged = _Staged(cluster, topic_id, "decided")
    begun = steps.begin(cluster, topic_id, "decided", join=False)
    assert staged.given_up() == "ingest decided had not begun, nothing was written"
    steps.commit(cluster, begun, [])
    staged.begun = True
    assert staged.given_up() == "ingest decided is committed: its records are in the topic"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_archive_that_is_stopped_says_so(broker: BrokerProcess, tmp_path: Path, number: signal.Signals) -> None:
    """Also while Spark starts."""
    topic = f"archive-stopped-{number.name}"
    Confluent(broker.bootstrap).create_topic(topic, 1)
    command = _command(broker, "archive", topic, str(tmp_path / "to"))
    _until(command, lambda: _children(command))
    said = f"stopped; what is in {tmp_path}/to is not the whole archive\n"
    assert _ended(command, number) == (128 + number, "", said)
