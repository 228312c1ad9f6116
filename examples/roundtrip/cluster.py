"""The main job on a cluster: `python -m examples.roundtrip.cluster`, or `make cluster`.

It starts three brokers on this machine, without ZooKeeper unless `--store zookeeper` says so; every topic has three
replicas. `format("pybroker")` loads the text. In the middle of the job the leader of a partition is killed and stays
down for a while. Meanwhile a topic with other records is deleted, re-created under its name, and loaded, too. Then the
broker returns with its old data of the deleted topic, and the new one gets its third replica (`pybroker cluster
balance`). Another broker is killed, so the returned one serves its copy. Spark and confluent-kafka read both topics
back. Exit code 0: the cluster is healthy again, and every count and digest agrees with the files.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import click
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.roundtrip import connector, spark, texts, topics
from examples.roundtrip.report import Row, report
from pybroker.testing import BrokerProcessError, Cluster
from pybroker.testing.cluster import Store
from pybroker.testing.download_cache import DownloadError
from pybroker.testing.maven import NoJavaError
from pybroker.testing.zookeeper.server import ZooKeeperError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

TOPIC, RECREATED = "text-cluster", "text-recreated"
BROKERS = 3
OLD_RECORDS = 1000
"""Records of the deleted topic, none of which may reappear."""
COMMAND_SECONDS_MAX = 600
POLL_S = 0.05


class CommandError(RuntimeError):
    """A command of pybroker failed; the text is its output."""


class _KillInTheMiddle:
    """Kills the leader of a partition when the job reports progress, then lets the job continue."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path) -> None:
        self._cluster = cluster
        self._topic = topic
        self.files = folder / "under-way", folder / "leader-dead"
        """The job makes the first one, and then waits for the second one."""
        self.killed: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kill-in-the-middle")

    def __enter__(self) -> _KillInTheMiddle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.files[0].exists():
            if self._ended.wait(POLL_S):
                return
        self.killed = topics.leader(self._cluster.bootstrap, self._topic, 0)
        self._cluster.kill(self.killed)
        self.files[1].touch()


def _pybroker(bootstrap: str, *arguments: str) -> None:
    """Run a command of pybroker."""
    command = [sys.executable, "-m", "pybroker", *arguments, "--bootstrap-server", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False)
    if done.returncode:
        raise CommandError(f"pybroker {' '.join(arguments)}:\n{done.stdout}{done.stderr}")


class _Job:
    """The steps of the job, each with a line in the display."""

    def __init__(self, cluster: Cluster, files: list[texts.TextFile], partitions: int, bar: Progress) -> None:
        self._cluster = cluster
        self._files = files
        self._partitions = partitions
        self._bar = bar
        self.happened: list[str] = []

    def run(self, folder: Path) -> bool:
        """Run all steps; return whether every check passed."""
        expected = self._step("read the files", lambda: texts.expected(self._files))
        bootstrap = self._cluster.bootstrap
        old_ids = topics.create(bootstrap, [TOPIC, RECREATED], self._partitions, BROKERS)
        topics.fill(bootstrap, RECREATED, OLD_RECORDS)
        session = self._step("start Spark", lambda: spark.session(connector.connector_jars()))
        try:
            with _KillInTheMiddle(self._cluster, TOPIC, folder) as killer:
                load = partial(spark.write_ingest, session, bootstrap, TOPIC, self._files)
                once = partial(load, ingest_id=f"{old_ids[TOPIC]}-1", stop=killer.files)
                first = self._timed(f"Spark → {TOPIC}", once)
            dead = killer.killed
            if dead is None:
                raise CommandError("the job ended before its first rows: no broker was killed during the load")
            self.happened.append(f"{TOPIC}: broker {dead}, a leader, was killed during the load")
            seconds = self._timed(f"delete and create {RECREATED}", lambda: topics.delete(bootstrap, RECREATED))
            ids = old_ids | topics.create(bootstrap, [RECREATED], self._partitions, BROKERS - 1)
            self.happened.append(
                f"{RECREATED}: deleted while broker {dead} was down, its name was free after {seconds * 1000:.0f} "
                f"ms; id {old_ids[RECREATED]} became {ids[RECREATED]}"
            )
            again = partial(spark.write_ingest, session, bootstrap, RECREATED, self._files)
            second = self._timed(f"Spark → {RECREATED}", lambda: again(ingest_id=f"{ids[RECREATED]}-1"))
            self._step(f"broker {dead} returns", partial(self._back, dead))
            other = topics.leader(bootstrap, TOPIC, 0)
            self._cluster.kill(other)
            self._cluster.settle()
            self.happened.append(f"read both topics while broker {other} is down")
            rows = [
                self._read(session, TOPIC, ids[TOPIC], first, expected),
                self._read(session, RECREATED, ids[RECREATED], second, expected),
            ]
            self._step(f"broker {other} returns", partial(self._back, other))
        finally:
            session.stop()
        self._bar.stop()
        report(self._bar.console, rows, expected, self._partitions, len(self._files))
        for line in self.happened:
            self._bar.console.print(line, highlight=False)
        return all(row.equal(expected) for row in rows)

    def _back(self, broker: int) -> None:
        """Wait until the broker is in sync, and every topic has all its replicas."""
        self._cluster.start_broker(broker)
        self._cluster.settle()
        bootstrap = self._cluster.bootstrap
        _pybroker(bootstrap, "cluster", "balance", "--replication-factor", str(BROKERS), "--yes", "--wait")
        self._cluster.settle()
        _pybroker(bootstrap, "cluster", "health")

    def _read(self, session: SparkSession, topic: str, topic_id: str, seconds: float, expected: texts.Copy) -> Row:
        bootstrap, total = self._cluster.bootstrap, expected.digest.records
        step = self._bar.add_task(f"{topic} → confluent-kafka", total=total)
        by_confluent = topics.read_back(
            bootstrap, topic, self._partitions, total, lambda count: self._bar.update(step, completed=count)
        )
        by_spark = self._step(f"{topic} → Spark", lambda: spark.read_back(session, bootstrap, topic))
        return Row(topic, topic_id, by_spark, by_confluent, seconds)

    def _step(self, what: str, work: Callable[[], Result]) -> Result:
        task = self._bar.add_task(what, total=1)
        result = work()
        self._bar.update(task, completed=1)
        return result

    def _timed(self, what: str, work: Callable[[], object]) -> float:
        started = time.monotonic()
        self._step(what, work)
        return time.monotonic() - started


@click.command()
@click.option(
    "--input", "given", type=click.Path(exists=True, path_type=Path), help="File or folder with your own text."
)
@click.option("--partitions", default=6, show_default=True, help="Partitions of each topic.")
@click.option(
    "--store",
    type=click.Choice(["quorum", "zookeeper"]),
    default="quorum",
    show_default=True,
    help="Where the brokers keep the metadata: in a log of their own, or in ZooKeeper.",
)
def main(given: Path | None, partitions: int, store: Store) -> None:
    """Load text into three brokers with Spark while one dies and a topic is re-created; read it back, and compare."""
    console = Console()
    files = texts.user_texts(given) if given else texts.installed_texts()
    if not files:
        raise click.ClickException("no text to load; pass a file or folder with --input")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="pybroker-roundtrip-")))
        bar = stack.enter_context(Progress(*columns, console=console))
        try:
            cluster = stack.enter_context(Cluster(BROKERS, data_dir=folder / "cluster", store=store))
            try:
                equal = _Job(cluster, files, partitions, bar).run(folder)
            except Exception:
                bar.stop()
                click.echo(cluster.log_tail(), err=True)
                raise
        except (
            BrokerProcessError,
            CommandError,
            DownloadError,
            KafkaException,
            NoJavaError,
            ZooKeeperError,
            connector.ConnectorError,
        ) as problem:
            raise click.ClickException(str(problem)) from problem
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
