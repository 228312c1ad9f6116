"""Commands that SIGINT and SIGTERM end together with the Spark that they run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from pybroker.cli.spark.refusals import spark_errors

POLL_S = 0.5
GRACE_S = 30.0
"""How long a command that is stopped waits for Spark to end."""
STARTING_S = 2.0
"""How long for a Spark that only starts: it has done nothing yet, and ends by itself when this process has."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_OF_SIGNAL = 128
T = TypeVar("T")

running: list[Any] = []
"""The JVM's SparkContext of the session that there is."""
stopped = threading.Event()
"""No session may begin any more."""


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
    stopped.clear()

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
            stopped.set()
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
