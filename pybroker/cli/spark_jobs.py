"""What the commands that run Spark share: a session, progress, errors as one line. Imports pyspark when called."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import click

from pybroker.cli.options import Target, table, write_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, DataFrameWriter, SparkSession

    from pybroker.spark.cluster import Cluster

ARCHIVED = (
    *("key", "value", "headers", "timestampType", "topic"),
    *("topic_id", "cluster_id", "partition", "offset", "timestamp"),
)
POLL_S = 0.5
GRACE_S = 30.0
"""How long a command that is stopped waits for Spark to end."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_OF_SIGNAL = 128
T = TypeVar("T")
REASON_LINES = ("pybroker.spark.errors.", "pybroker._native.NativeError", "NativeError:")
TRACEBACK = "Traceback (most recent call last):\n"
PYSPARK_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
NO_JVM = "JAVA_GATEWAY_EXITED"
_CALLING = "An error occurred while calling"
_CLASS = re.compile(r"^(?:: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)(?:: |$)")
_TASK = re.compile(r"^Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): ")
# With three slashes it is quoted as a URL; Spark writes files with one slash as they are called.
_FILE = re.compile(r"\bfile:///\S+")
_STATE = re.compile(r"\s*SQLSTATE: \w+(?:; line \d+ pos \d+)?;?$")
STDERR = 2

_running: list[Any] = []
"""The JVM's SparkContext of the session that there is."""


class StoppedError(Exception):
    """A signal ended a command; `exit_code` is what shells make of it."""

    def __init__(self, number: int) -> None:
        self.exit_code = EXIT_OF_SIGNAL + number
        super().__init__(number)


def stoppable(work: Callable[[], T]) -> T:
    """What `work` gives, which runs Spark. Raises StoppedError once SIGINT or SIGTERM came and Spark has ended.

    The work is done in a thread: one that a signal interrupts inside of a call of the JVM can call it no more.
    """
    given: list[T] = []
    raised: list[BaseException] = []
    came: list[int] = []

    def run() -> None:
        try:
            given.append(work())
        except BaseException as error:  # raised again by the thread that waits
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    before = {number: signal.signal(number, lambda got, _: came.append(got)) for number in SIGNALS}
    try:
        thread.start()
        while thread.is_alive() and not came:
            thread.join(POLL_S)
        if came:
            _end_spark(thread)
            raise StoppedError(came[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if raised:
        raise raised[0]
    return given[0]


def _end_spark(thread: threading.Thread) -> None:
    """Cancels all jobs, lets no other begin, and waits for the thread that is at it."""
    give_up = time.monotonic() + GRACE_S
    while thread.is_alive() and time.monotonic() < give_up:
        if _running:
            context = _running.pop()
            with suppress(*spark_errors()):
                context.sc().cancelAllJobs()
                context.stop()
        thread.join(POLL_S)


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show Spark's own log.")


@contextmanager
def session(master: str, *, verbose: bool = False) -> Iterator[SparkSession]:
    """A quiet Spark, stopped at the end; what goes wrong in the block is one line.

    Raises click.ClickException, also if pyspark is not installed.
    """
    # Without this, workers start whatever `python3` comes first on the path, which lacks our modules.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise click.ClickException("this command needs Spark: pip install 'pybroker[spark]'") from None
    quiet_pyspark(verbose=verbose)
    level = "WARN" if verbose else "OFF"
    builder = (
        SparkSession.builder.master(master)
        .appName("pybroker")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", level)
        .config("spark.sql.session.timeZone", "UTC")
        # Columns id and ID are two.
        .config("spark.sql.caseSensitive", "true")
        # PySpark's workers make local times of timestamps, and an hour comes twice where clocks are set back.
        .config("spark.executorEnv.TZ", "UTC")
    )
    if local:
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    with tempfile.TemporaryFile() as log, errors_as_lines():
        with errors_as_lines(f"--master {master}", log), nullcontext() if verbose else _stderr_into(log):
            spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel(level)
        _running.append(spark.sparkContext._jsc)
        try:
            yield spark
        finally:
            _running.clear()
            spark.stop()


def quiet_pyspark(*, verbose: bool) -> None:
    """PySpark writes some of its errors to stderr as JSON with the stack trace, beside raising them."""
    from pyspark.logger import PySparkLogger

    for name in PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).disabled = not verbose


@contextmanager
def _stderr_into(log: IO[bytes]) -> Iterator[None]:
    """What this process and those that it starts write to stderr goes into a file: a JVM keeps it so. Its launcher,
    Spark before it has read its settings, and tasks write there whatever the log level."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    os.dup2(log.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


@contextmanager
def errors_as_lines(what: str | None = None, log: IO[bytes] | None = None) -> Iterator[None]:
    """Whatever Spark raises is one line, which begins with `what`; stack traces stay out of sight.

    `log`: what the JVM wrote, for one that did not start.
    """
    try:
        yield
    except spark_errors() as error:
        text = str(error)
        if log is not None and NO_JVM in text:
            log.seek(0)
            text = no_jvm(log.read().decode(errors="replace"))
        raise click.ClickException(": ".join(each for each in (what, reason(text)) if each)) from None


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises: those that it has classes for in Python, and all others."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # published without types
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def no_jvm(log: str) -> str:
    """The line of what the JVM wrote that says why there is none."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("WARNING")]
    said = next((line.partition(": ")[2] for line in lines if line.startswith("Exception in thread")), None)
    said = said or next((line for line in lines if "java" in line.lower()), None)
    return said or "Spark did not start: is there a Java? --verbose shows what it says"


def reason(text: str) -> str:
    """What an error of Spark's says, in a line: the end of a Python worker's traceback, or its first line and what the
    cause was."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if any(mark in line for mark in REASON_LINES)]
    if told:
        return told[-1].split(": ", 1)[-1]
    _, traceback, after = text.rpartition(TRACEBACK)
    raised = [line for line in after.splitlines() if line[:1].strip()]
    if traceback and raised:
        return raised[0]
    first = next((said for line in lines if not line.startswith(_CALLING) and (said := _plain(line))), "")
    causes = [_plain(line.removeprefix("Caused by: ")) for line in lines if line.startswith("Caused by: ")]
    last = next((each for each in reversed(causes) if each), "")
    return first + (f" {last}" if last not in first else "") or "Spark failed"


def file_name(url: str) -> str:
    """A local file as a user knows it, from Spark's URL; others as they are."""
    return "/" + unquote(url.removeprefix("file:").lstrip("/")) if url.startswith("file:/") else url


def _plain(line: str) -> str:
    """Without names of classes, and of the task that met it."""
    line = _FILE.sub(lambda url: file_name(url[0]), line)
    while (shorter := _STATE.sub("", _TASK.sub("", _CLASS.sub("", line)))) != line:
        line = shorter
    return line


@contextmanager
def refusals_as_lines() -> Iterator[None]:
    """What the broker refuses, outside of Spark, is one line."""
    from pybroker.native import NativeError
    from pybroker.spark.errors import SparkSourceError

    try:
        yield
    except (NativeError, SparkSourceError) as error:
        raise click.ClickException(str(error)) from None


def cluster_of(target: Target) -> Cluster:
    """The cluster that the options name."""
    from pybroker.spark.cluster import Cluster

    return Cluster({name: str(value) for name, value in target.client_config().items()})


def client_options(target: Target) -> dict[str, str]:
    """The data source's `kafka.*` options of a command's broker options."""
    return {f"kafka.{name}": str(value) for name, value in target.client_config().items()}


def reader(spark: SparkSession, target: Target, topic_id: str, options: Mapping[str, str]) -> DataFrameReader:
    """A reader of a topic by its id, with all columns that an archive has."""
    return (
        spark.read.format("pybroker")
        .options(**client_options(target))
        .options(topicIds=topic_id, **options)
        .option("columns", ",".join(ARCHIVED))
    )


def writer(frame: DataFrame, target: Target, topic: str, options: Mapping[str, str]) -> DataFrameWriter:
    """A writer into a topic."""
    return (
        frame.write.format("pybroker").options(**client_options(target)).options(topic=topic, **options).mode("append")
    )


def column_of(name: str) -> Column:
    """A column by its whole name: a dot in it means no field."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


@contextmanager
def progress(spark: SparkSession, what: str, rows_total: int | None = None, counts: Any = None) -> Iterator[None]:
    """A bar on a terminal while Spark works: tasks done, rows and bytes (as `counts` tells them), rate, time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        line = bar.add_task(what, total=rows_total, told="")
        watched = _Watched(spark, counts)

        def look() -> None:
            # A job that fails says why itself.
            with suppress(*spark_errors()):
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
