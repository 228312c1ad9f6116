"""Runs the main job; see the package's docstring."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from confluent_kafka import KafkaException
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from pybroker.cli.spark.progress import meanwhile
from pybroker.roundtrip import connector, server, spark, texts, topics

BATCH_TOPIC, STREAM_TOPIC, INGEST_TOPIC = "text-batch", "text-stream", "text-pybroker"
PROGRESS_S = 0.5
TABLE_WIDTH = 110


@dataclass(frozen=True)
class Row:
    """One topic's result."""

    topic: str
    topic_id: str
    by_spark: texts.Digest
    by_confluent: texts.Copy
    seconds: float

    def equal(self, expected: texts.Copy) -> bool:
        """Both readers found exactly the records of the files; confluent-kafka also in the files' order."""
        return (
            self.by_spark == expected.digest
            and self.by_confluent.digest == expected.digest
            and self.by_confluent.order() == expected.order()
        )


@contextmanager
def _watched(bar: Progress, what: str, total: int, count: Callable[[], int]) -> Iterator[None]:
    """Shows how far work has come by asking for `count` now and then, while it runs in this thread."""
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
    _report(bar.console, rows, expected, partitions, len(files))
    if killed.exists():
        bar.console.print(f"{INGEST_TOPIC}: a task was killed in the middle, and the whole load was run twice")
    else:
        bar.console.print(f"{INGEST_TOPIC}: there were too few lines for a task to be killed in the middle")
    return all(row.equal(expected) for row in rows)


def _report(console: Console, rows: list[Row], expected: texts.Copy, partitions: int, files: int) -> None:
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{files:,} files, {expected.digest.records:,} lines, {expected.digest.size_bytes:,} bytes",
    )
    for heading in ("topic", "topic id", "partitions", "records", "bytes", "seconds", "digest equal"):
        table.add_column(heading, justify="left" if heading.startswith("topic") else "right")
    for row in rows:
        found = row.by_confluent.digest
        table.add_row(
            row.topic,
            row.topic_id,
            str(partitions),
            f"{found.records:,}",
            f"{found.size_bytes:,}",
            f"{row.seconds:.1f}",
            "yes" if row.equal(expected) else "NO",
        )
    # A topic id cut off at the edge of a narrow terminal would be of no use.
    Console(width=max(console.width, TABLE_WIDTH)).print(table)
    for row in rows:
        if not row.equal(expected):
            order = "in order" if row.by_confluent.order() == expected.order() else "NOT in order"
            console.print(
                f"{row.topic}: files {expected.digest}, Spark {row.by_spark}, "
                f"confluent-kafka {row.by_confluent.digest} {order}"
            )


@click.command()
@click.option("--input", "given", type=click.Path(exists=True, path_type=Path), help="A file or folder of your own.")
@click.option("--partitions", default=6, show_default=True, help="Of each topic.")
@click.option("--bootstrap", help="A broker that already runs, instead of one started here.")
def main(given: Path | None, partitions: int, bootstrap: str | None) -> None:
    """Load text into a broker by Spark, read it back, and compare."""
    console = Console()
    files = texts.user_texts(given) if given else texts.installed_texts()
    if not files:
        raise click.ClickException("there is no text to load")
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
