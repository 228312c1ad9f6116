"""Runs the main job; see the package's docstring."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from examples.roundtrip import connector, server, spark, texts, topics
from examples.roundtrip.report import Row, report
from pybroker.cli.spark.progress import meanwhile

BATCH_TOPIC, STREAM_TOPIC, INGEST_TOPIC = "text-batch", "text-stream", "text-pybroker"
PROGRESS_S = 0.5


@contextmanager
def _watched(bar: Progress, what: str, total: int, count: Callable[[], int]) -> Iterator[None]:
    """Show progress by polling `count` while the block runs in this thread."""
    task = bar.add_task(what, total=total)
    with meanwhile(PROGRESS_S, lambda: bar.update(task, completed=count())):
        yield
    bar.update(task, completed=count())


def _advance(bar: Progress, task: TaskID, count: int) -> None:
    bar.update(task, completed=count)


def _job(bootstrap: str, files: list[texts.TextFile], partitions: int, folder: Path, bar: Progress) -> bool:
    step = bar.add_task("read the files", total=None)
    expected = texts.expected(files)
    total = expected.digest.records
    bar.update(step, total=len(files), completed=len(files))
    names = [BATCH_TOPIC, STREAM_TOPIC, INGEST_TOPIC]
    killed = folder / "task-killed"
    ids = topics.create(bootstrap, names, partitions)
    step = bar.add_task("start Spark", total=1)
    session = spark.session(connector.connector_jars())
    bar.update(step, completed=1)
    jobs: dict[str, Callable[[], object]] = {
        BATCH_TOPIC: lambda: spark.write_batch(session, bootstrap, BATCH_TOPIC, files),
        STREAM_TOPIC: lambda: spark.copy_by_stream(
            session, bootstrap, BATCH_TOPIC, STREAM_TOPIC, folder / "checkpoint"
        ),
        INGEST_TOPIC: lambda: spark.write_exactly_once(
            session, bootstrap, INGEST_TOPIC, files, killed=killed, ingest_id=f"{ids[INGEST_TOPIC]}-1"
        ),
    }
    rows = []
    try:
        for topic in names:
            with _watched(bar, f"Spark → {topic}", total, partial(topics.written, bootstrap, topic, partitions)):
                started = time.monotonic()
                jobs[topic]()
                seconds = time.monotonic() - started
            step = bar.add_task(f"{topic} → confluent-kafka", total=total)
            by_confluent = topics.read_back(bootstrap, topic, partitions, total, partial(_advance, bar, step))
            step = bar.add_task(f"{topic} → Spark", total=total)
            by_spark = spark.read_back(session, bootstrap, topic)
            bar.update(step, completed=by_spark.records)
            rows.append(Row(topic, ids[topic], by_spark, by_confluent, seconds))
    finally:
        session.stop()
    bar.stop()
    report(bar.console, rows, expected, partitions, len(files))
    if killed.exists():
        bar.console.print(f"{INGEST_TOPIC}: a task was killed during the load, and the whole load ran twice")
    else:
        bar.console.print(f"{INGEST_TOPIC}: too few lines to kill a task during the load")
    return all(row.equal(expected) for row in rows)


@click.command()
@click.option(
    "--input", "given", type=click.Path(exists=True, path_type=Path), help="File or folder with your own text."
)
@click.option("--partitions", default=6, show_default=True, help="Partitions of each topic.")
@click.option("--bootstrap", help="Use this running broker instead of starting one.")
def main(given: Path | None, partitions: int, bootstrap: str | None) -> None:
    """Load text into a broker with Spark, read it back, and compare."""
    console = Console()
    files = texts.user_texts(given) if given else texts.installed_texts()
    if not files:
        raise click.ClickException("no text to load; pass a file or folder with --input")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="pybroker-roundtrip-")))
        bar = stack.enter_context(Progress(*columns, console=console))
        try:
            address = bootstrap or stack.enter_context(server.broker(folder))
            equal = _job(address, files, partitions, folder, bar)
        except (server.ServerError, connector.ConnectorError, KafkaException) as problem:
            raise click.ClickException(str(problem)) from problem
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
