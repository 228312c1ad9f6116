"""A quiet Spark session, and the data source's readers and writers for the broker of the command line."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING

import click

from pybroker.cli.options import refusals_told
from pybroker.cli.spark.interruption import running, stopped
from pybroker.cli.spark.spark_errors import errors_as_lines
from pybroker.cli.target import WAIT, Target
from pybroker.version import packages_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, DataFrameWriter, SparkSession

    from pybroker.spark.cluster_requests import SparkCluster

ARCHIVED = (
    *("key", "value", "headers", "timestampType", "topic"),
    *("topic_id", "cluster_id", "partition", "offset", "timestamp"),
)
PYSPARK_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
STDERR = 2
EXTRA = "spark"


def require_spark(also: str = "pyspark") -> None:
    """Raise click.ClickException, with what to install, if Java or pyspark (or another module) is missing."""
    if importlib.util.find_spec(also) is None:
        raise click.ClickException(
            f"this command requires {also}, which is not installed: pip install {packages_of(EXTRA)}"
        )
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise click.ClickException("Spark requires Java: install a JDK (17 or newer), or set JAVA_HOME")


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show Spark's log.")


@contextmanager
def session(master: str, *, verbose: bool = False) -> Iterator[SparkSession]:
    """Yield a quiet Spark session and stop it at the end. Errors of the block become one line.

    Raises click.ClickException, for example if pyspark is not installed.
    """
    # Without this setting, workers start the first `python3` on the PATH, which lacks pybroker.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    require_spark()
    from pyspark.sql import SparkSession

    quiet_pyspark(verbose=verbose)
    level = "WARN" if verbose else "OFF"
    builder = (
        SparkSession.builder.master(master)
        .appName("pybroker")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", level)
        .config("spark.sql.session.timeZone", "UTC")
        # Columns that differ only in case, such as id and ID, are distinct.
        .config("spark.sql.caseSensitive", "true")
        # PySpark's workers convert timestamps to local time, in which an hour occurs twice when clocks are set back.
        .config("spark.executorEnv.TZ", "UTC")
        # Hadoop ignores the process's umask. Its own default lets every user read an archive.
        .config("spark.hadoop.fs.permissions.umask-mode", f"{_umask():03o}")
    )
    if local:
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    with tempfile.TemporaryFile() as log, errors_as_lines():
        with errors_as_lines(f"--master {master}", log), nullcontext() if verbose else _stderr_into(log):
            spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel(level)
        running.append(spark.sparkContext._jsc)
        try:
            if stopped.is_set():
                raise click.Abort
            yield spark
        finally:
            running.clear()
            spark.stop()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def quiet_pyspark(*, verbose: bool) -> None:
    """Silence PySpark, which writes some errors to stderr as JSON with the stack trace besides raising them."""
    from pyspark.logger import PySparkLogger

    for name in PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).disabled = not verbose


@contextmanager
def _stderr_into(log: IO[bytes]) -> Iterator[None]:
    """Redirect stderr of processes that start in the block into a file. The JVM writes to this file until it ends.
    Three writers ignore the log level: the JVM's launcher, Spark before it has read its settings, and tasks. This
    process's own output still appears."""
    sys.stderr.flush()
    kept, own = os.dup(STDERR), sys.stderr
    os.dup2(log.fileno(), STDERR)
    try:
        with open(kept, "w", buffering=1, closefd=False) as stream:
            if own is sys.__stderr__:
                sys.stderr = stream
            yield
    finally:
        sys.stderr = own
        os.dup2(kept, STDERR)
        os.close(kept)


def cluster_of(target: Target) -> SparkCluster:
    """Return the cluster of the options. Raises click.ClickException if a broker that the command waits for does not
    start."""
    from pybroker.client import blocking
    from pybroker.spark.cluster_requests import SparkCluster

    if int(target.settings.get(WAIT, 0)) > 0:
        # The data source's own client has no setting for this wait.
        with refusals_told(), blocking.AdminClient(target.client_config()) as admin:
            admin.describe_cluster()
    return SparkCluster(_settings(target))


def client_options(target: Target) -> dict[str, str]:
    """Return the data source's `kafka.*` options for a command's broker options."""
    return {f"kafka.{name}": value for name, value in _settings(target).items()}


def _settings(target: Target) -> dict[str, str]:
    return {name: str(value) for name, value in target.client_config().items() if name != WAIT}


def reader(spark: SparkSession, target: Target, topic_id: str, options: Mapping[str, str]) -> DataFrameReader:
    """Return a reader of a topic by its id, with all columns of an archive."""
    return (
        spark.read.format("pybroker")
        .options(**client_options(target))
        .options(topicIds=topic_id, **options)
        .option("columns", ",".join(ARCHIVED))
    )


def writer(frame: DataFrame, target: Target, topic: str, options: Mapping[str, str]) -> DataFrameWriter:
    """Return a writer into a topic."""
    return (
        frame.write.format("pybroker").options(**client_options(target)).options(topic=topic, **options).mode("append")
    )


def column_of(name: str) -> Column:
    """Return a column by its whole name, so that a dot in the name does not select a field."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")
