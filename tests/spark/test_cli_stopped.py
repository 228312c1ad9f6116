"""State after SIGINT or SIGTERM ends `pybroker ingest load` or `archive`."""

from __future__ import annotations

import contextlib
import json
import os
import re
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

from pybroker.cli.ingest.staged_progress import StagedProgress
from pybroker.spark import ingest_steps as steps
from pybroker.spark.cluster_requests import SparkCluster
from tests.clients.api import Record
from tests.clients.confluent import Confluent
from tests.spark.commands import apart
from tests.support.brokers import BrokerProcess

LIMIT_S = 300
ROWS, GROUPS = 1_000_000, 50
"""More rows than can be loaded in many minutes; they are equal, so the file is small."""


class Command:
    """`pybroker …` in a process group of its own, with its stderr in a file."""

    def __init__(self, broker: BrokerProcess, folder: Path, *arguments: str) -> None:
        self._stderr = folder / "stderr"
        command = [sys.executable, "-m", "pybroker", *arguments, "--master", "local[1]"]
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, "--bootstrap-server", broker.bootstrap],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )

    def until(self, what: Callable[[], object]) -> None:
        """Wait for a condition while the command runs."""
        give_up = time.monotonic() + LIMIT_S
        while not what():
            assert self._process.poll() is None, self.told
            assert time.monotonic() < give_up, self.told
            time.sleep(0.05)

    @property
    def told(self) -> str:
        """Return the command's stderr so far."""
        return self._stderr.read_text()

    @property
    def children(self) -> bool:
        """Return whether the command has started child processes."""
        for path in Path(f"/proc/{self._process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # this thread has ended meanwhile
                if path.read_text().strip():
                    return True
        return False

    def ended(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Return its exit code and output, when it ends or after a signal, without the progress lines. A terminal sends
        SIGINT to all processes, here SIGKILL goes to all, other tools send SIGTERM to one."""
        try:
            if number in (signal.SIGINT, signal.SIGKILL):
                os.killpg(self._process.pid, number)
            elif number is not None:
                self._process.send_signal(number)
            out, _ = self._process.communicate(timeout=LIMIT_S)
        finally:
            self._process.kill()
        return self._process.returncode, out, apart(self.told)[0]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_load_that_is_stopped_leaves_nothing(broker: BrokerProcess, tmp_path: Path, number: signal.Signals) -> None:
    """Its ingest is aborted, and one line says so. Lines before it show the progress, with the tasks."""
    topic = f"load-stopped-{number.name}"
    Confluent(broker.bootstrap).create_topic(topic, 1)
    table = pa.table({"text": pa.array(["x" * 100]).take(pa.array([0] * ROWS, pa.int32()))})
    with pq.ParquetWriter(tmp_path / "rows.parquet", table.schema) as file:
        for _ in range(GROUPS):
            file.write_table(table)
    cluster = SparkCluster({"bootstrap.servers": broker.bootstrap})
    load = ("ingest", "load", str(tmp_path / "rows.parquet"), "--format", "parquet", "--topic", topic)
    command = Command(broker, tmp_path, *load, "--ingest-id", topic)
    command.until(lambda: any(each.bytes for each in steps.listed(cluster, ingest_id=topic)))
    command.until(
        lambda: re.search(rf" → {topic}: 0/1 tasks, [1-9][0-9,]* rows, .* MB, .* rows/s, \d+ s\n", command.told)
    )
    said = f"stopped; ingest {topic} was aborted; nothing was written to the topic\n"
    assert command.ended(number) == (128 + number, "", said)
    assert steps.listed(cluster, ingest_id=topic) == []
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    assert consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=60) == (0, 0)
    consumer.close()


def test_a_load_that_is_decided_stays(broker: BrokerProcess) -> None:
    """The user gets a message. An ingest that this load has not begun is not aborted."""
    Confluent(broker.bootstrap).create_topic("load-decided", 1)
    cluster = SparkCluster({"bootstrap.servers": broker.bootstrap})
    topic_id = cluster.topics_named(["load-decided"])["load-decided"].id
    staged = StagedProgress(cluster, topic_id, "decided")
    begun = steps.begin(cluster, topic_id, "decided", join=False)
    assert staged.given_up() == "ingest decided had not started; nothing was written"
    steps.commit(cluster, begun, [])
    staged.begun = True
    assert staged.given_up() == "ingest decided is committed; its records are in the topic"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_archive_that_is_stopped_says_so(broker: BrokerProcess, tmp_path: Path, number: signal.Signals) -> None:
    """Also while Spark starts."""
    topic = f"archive-stopped-{number.name}"
    Confluent(broker.bootstrap).create_topic(topic, 1)
    command = Command(broker, tmp_path, "archive", topic, str(tmp_path / "to"))
    command.until(lambda: command.children)
    said = f"stopped; the archive in {tmp_path}/to is incomplete: run the same command again to resume\n"
    assert command.ended(number) == (128 + number, "", said)


@pytest.mark.slow
def test_an_archive_that_was_killed_goes_on_where_it_was(broker: BrokerProcess, tmp_path: Path) -> None:
    """The same command again: finished parts stay, unfinished ones are written again, and the result equals that of an
    uninterrupted run. Another command does not change it."""
    topic, client, dest = "archive-killed", Confluent(broker.bootstrap), tmp_path / "to"
    client.create_topic(topic, 2)
    producer = client.producer()
    producer.send(topic, [Record(number % 2, None, f"v{number}") for number in range(1000)])
    archive = ("archive", topic, str(dest), "--part-rows", "100", "--json")
    first = Command(broker, tmp_path, *archive)
    first.until((dest / "_pybroker_archive" / "1.json").exists)
    assert first.ended(signal.SIGKILL)[0] == -signal.SIGKILL
    finished = {file.name: file.stat().st_mtime_ns for file in dest.glob("*.parquet")}
    producer.send(topic, [Record(0, None, "late")])
    code, _, told = Command(broker, tmp_path, "archive", topic, str(dest), "--to", "2026-11-01").ended()
    assert code == 1
    assert told.startswith(f"Error: {dest} contains another unfinished archive ({topic}: ")
    code, out, told = Command(broker, tmp_path, *archive).ended()
    assert code == 0, told
    going_on = re.fullmatch(rf"{dest}: resuming an unfinished archive; (\d+) of 10 parts exist\n", told)
    assert going_on is not None, told
    assert 2 <= int(going_on[1]) < 10
    shown = json.loads(out)
    assert (shown["topic"], shown["rows"]) == (topic, 1000)
    assert [(each["first"], each["last"], each["rows"]) for each in shown["partitions"]] == [(0, 499, 500)] * 2
    rows = pq.read_table(dest).to_pylist()
    assert sorted((row["_partition"], row["_offset"]) for row in rows) == [
        (p, at) for p in range(2) for at in range(500)
    ]
    assert finished.items() <= {file.name: file.stat().st_mtime_ns for file in dest.glob("*.parquet")}.items()
    assert not (dest / "_pybroker_archive").exists()
    again = Command(broker, tmp_path, *archive).ended()
    assert again[2].startswith(f"Error: {dest} already exists")
    (dest / "_pybroker_archive").mkdir()
    (dest / "_pybroker_archive" / "plan.json").write_text("{")
    damaged = Command(broker, tmp_path, *archive).ended()
    assert damaged[2].startswith(f"Error: {dest}/_pybroker_archive/plan.json: "), damaged
    assert damaged[2].endswith("use --mode overwrite to start over\n")
    code, out, _ = Command(broker, tmp_path, *archive, "--mode", "overwrite").ended()
    assert json.loads(out)["rows"] == pq.read_table(dest).num_rows == 1001
