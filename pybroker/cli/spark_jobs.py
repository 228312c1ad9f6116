"""What the commands that run Spark share: a session, progress, errors as one line. Imports pyspark when called."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.options import Target, table, write_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

ARCHIVED = (
    *("key", "value", "headers", "timestampType", "topic"),
    *("topic_id", "cluster_id", "partition", "offset", "timestamp"),
)
POLL_S = 0.5
ID_LENGTH = 22
REASON_LINES = ("pybroker.spark.errors.", "pybroker._native.NativeError", "NativeError:")


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """A quiet Spark, stopped at the end. Raises click.ClickException if pyspark is not installed."""
    # Without this, workers start whatever `python3` comes first on the path, which lacks our modules.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise click.ClickException("this command needs Spark: pip install 'pybroker[spark]'") from None
    builder = (
        SparkSession.builder.master(master)
        .appName("pybroker")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if local:
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        spark.stop()


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """What a user can mend is one line; Spark's own stack traces stay out of sight."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise click.ClickException(reason(str(error))) from None


def reason(text: str) -> str:
    """The line of a Python worker's traceback that says what happened; else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if any(mark in line for mark in REASON_LINES)]
    if told:
        return told[-1].split(": ", 1)[-1]
    return lines[0] if lines else "Spark failed"


def client_options(target: Target) -> dict[str, str]:
    """The data source's `kafka.*` options of a command's broker options."""
    return {f"kafka.{name}": str(value) for name, value in target.client_config().items()}


def reader(spark: SparkSession, target: Target, topic: str, options: Mapping[str, str]) -> DataFrameReader:
    """A reader of a topic by name or id, with all columns that an archive has."""
    which = {"topicIds": topic} if _is_id(topic) else {"subscribe": topic}
    return (
        spark.read.format("pybroker")
        .options(**client_options(target))
        .options(**which, **options)
        .option("columns", ",".join(ARCHIVED))
    )


def _is_id(text: str) -> bool:
    from pybroker.native import Uuid

    if len(text) != ID_LENGTH:
        return False
    try:
        return bool(Uuid.parse(text))
    except ValueError:
        return False


def writer(frame: DataFrame, target: Target, topic: str, options: Mapping[str, str]) -> DataFrameWriter:
    """A writer into a topic."""
    return (
        frame.write.format("pybroker").options(**client_options(target)).options(topic=topic, **options).mode("append")
    )


@contextmanager
def progress(spark: SparkSession, what: str, rows_total: int | None = None, counts: Any = None) -> Iterator[None]:
    """A bar on stderr while Spark works: tasks done, rows and bytes (as `counts` tells them), rate, time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        line = bar.add_task(what, total=rows_total, told="")
        watched = _Watched(spark, counts)

        def look() -> None:
            completed, total, told = watched.look(rows_total)
            bar.update(line, completed=completed, total=total, told=told)

        with meanwhile(POLL_S, look):
            yield
        bar.update(line, completed=1, total=1)


@contextmanager
def meanwhile(every_s: float, look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` again and again in a thread while the block runs in this one."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every_s):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


class _Watched:
    """How far Spark's running stages are, and what the broker has got."""

    def __init__(self, spark: SparkSession, counts: Any) -> None:
        import time

        self._tracker = spark.sparkContext.statusTracker()
        self._counts = counts
        self._clock = time.monotonic
        self._started_s = self._clock()

    def look(self, rows_total: int | None) -> tuple[float, float | None, str]:
        tasks = done = 0
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                tasks, done = tasks + info.numTasks, done + info.numCompletedTasks
        if self._counts is None:
            return done, tasks or None, f"{done}/{tasks} tasks"
        rows, size = self._counts()
        rate = rows / max(self._clock() - self._started_s, 0.001)
        told = f"{rows:,} rows, {size / 1e6:,.1f} MB, {rate:,.0f} rows/s, {done}/{tasks} tasks"
        return (rows, rows_total, told) if rows_total else (done, tasks or None, told)


def show(rows: Sequence[Mapping[str, object]], columns: Sequence[str], *, as_json: bool) -> None:
    """The summary of a job on stdout."""
    if as_json:
        write_json(list(rows))
    else:
        table(rows, columns)
