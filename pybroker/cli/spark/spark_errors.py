"""Errors of Spark and of the broker, each in one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from urllib.parse import unquote

import click

REASON_LINES = ("pybroker.spark.source_errors.", "pybroker._native.NativeError", "NativeError:")
TRACEBACK = "Traceback (most recent call last):\n"
NO_JVM = "JAVA_GATEWAY_EXITED"
_CALLING = "An error occurred while calling"
_CLASS = re.compile(r"^(?:: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)(?:: |$)")
_TASK = re.compile(r"^Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): ")
# Names with three slashes are URL-encoded; Spark prints file names after one slash unencoded.
_FILE = re.compile(r"\bfile:///\S+")
_STATE = re.compile(r"\s*SQLSTATE: \w+(?:; line \d+ pos \d+)?;?$")


@contextmanager
def errors_as_lines(what: str | None = None, log: IO[bytes] | None = None) -> Iterator[None]:
    """Turn Spark's exceptions into one line that begins with `what`; hide stack traces.

    `log` is the JVM's output, for a JVM that did not start.
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
    """Return Spark's exceptions: the exceptions with Python classes, and the general exception."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # published without types
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def no_jvm(log: str) -> str:
    """Return the line of the JVM's output with the reason for its failure."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("WARNING")]
    cause = next((line.partition(": ")[2] for line in lines if line.startswith("Exception in thread")), None)
    cause = cause or next((line for line in lines if "java" in line.lower()), None)
    return cause or "Spark did not start; check that Java is installed, or use --verbose to see Spark's log"


def reason(text: str) -> str:
    """Return the reason in an error of Spark as one line: the end of a Python worker's traceback, or the first line and
    the cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if any(mark in line for mark in REASON_LINES)]
    if reasons:
        return reasons[-1].split(": ", 1)[-1]
    _, traceback, after = text.rpartition(TRACEBACK)
    raised = [line for line in after.splitlines() if line[:1].strip()]
    if traceback and raised:
        return raised[0]
    first = next((cause for line in lines if not line.startswith(_CALLING) and (cause := _plain(line))), "")
    causes = [_plain(line.removeprefix("Caused by: ")) for line in lines if line.startswith("Caused by: ")]
    last = next((each for each in reversed(causes) if each), "")
    return first + (f" {last}" if last not in first else "") or "Spark failed"


def file_name(url: str) -> str:
    """Return the path of a local file from Spark's URL; other URLs unchanged."""
    return "/" + unquote(url.removeprefix("file:").lstrip("/")) if url.startswith("file:/") else url


def _plain(line: str) -> str:
    """Remove names of classes, and of the failed task."""
    line = _FILE.sub(lambda url: file_name(url[0]), line)
    while (shorter := _STATE.sub("", _TASK.sub("", _CLASS.sub("", line)))) != line:
        line = shorter
    return line


@contextmanager
def refusals_as_lines() -> Iterator[None]:
    """Turn the broker's errors outside of Spark into one line."""
    from pybroker.native import NativeError
    from pybroker.spark.source_errors import SparkSourceError

    try:
        yield
    except (NativeError, SparkSourceError) as error:
        raise click.ClickException(str(error)) from None
