"""Ends a command and its Spark session on SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from pybroker.cli.spark.spark_errors import spark_errors

POLL_S = 0.5
GRACE_S = 30.0
"""Seconds that a stopped command waits for the end of Spark."""
STARTING_S = 2.0
"""Seconds of this wait if Spark is still starting: it has done no work yet, and ends with this process."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_OF_SIGNAL = 128
T = TypeVar("T")

running: list[Any] = []
"""The JVM's SparkContext of the current session."""
stopped = threading.Event()
"""Set when no new session may begin."""


class StoppedError(Exception):
    """A signal ended a command; `exit_code` is the shell's code for it."""

    def __init__(self, number: int) -> None:
        self.exit_code = EXIT_OF_SIGNAL + number
        super().__init__(number)


def stoppable(work: Callable[[], T]) -> T:
    """Run `work`, which uses Spark, and return its result. If SIGINT or SIGTERM arrives, raises StoppedError when Spark
    has ended.

    Another thread does the work, because a thread that a signal interrupts in a call of the JVM cannot call the JVM
    again.
    """
    results: list[T] = []
    raised: list[BaseException] = []
    came: list[int] = []
    stopped.clear()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # The waiting thread raises the exception again.
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    before = {number: signal.signal(number, lambda got, _: came.append(got)) for number in SIGNALS}
    try:
        thread.start()
        while thread.is_alive() and not came:
            thread.join(POLL_S)
        if came:
            stopped.set()
            _end_spark(thread)
            raise StoppedError(came[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if raised:
        raise raised[0]
    return results[0]


def _end_spark(thread: threading.Thread) -> None:
    """Cancel all jobs, prevent new ones, and wait for the thread that runs them."""
    begun = time.monotonic()
    give_up = begun + STARTING_S
    while thread.is_alive() and time.monotonic() < give_up:
        if running:
            give_up = begun + GRACE_S
            context = running.pop()
            with suppress(*spark_errors()):
                context.sc().cancelAllJobs()
                context.stop()
        thread.join(POLL_S)
