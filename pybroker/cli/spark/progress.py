"""Progress of a command that runs Spark: a bar on a terminal, otherwise lines at intervals."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from pybroker.cli.spark.spark_errors import spark_errors
from pybroker.printable import printable

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker
    from rich.console import Console

POLL_S = 0.5
LINE_EVERY_S = 10.0
"""Seconds between progress lines if there is no terminal. Shorter work prints no line."""


class ProgressCounts(Protocol):
    """Rows and bytes that have arrived so far."""

    def __call__(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Tasks of the jobs that a step has started so far."""

    done: int = 0
    total: int = 0


class Progress:
    """The current step of a command, and the tasks of its jobs."""

    def __init__(
        self, what: str, counts: ProgressCounts | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what = what
        self._step = "starting Spark"
        self._counts = counts
        self._clock = clock
        self._started_s = clock()
        self._tracker: StatusTracker | None = None
        self._group = ""

    def step(self, context: SparkContext, name: str = "") -> None:
        """Begin the next step. All jobs that this thread starts from here belong to it."""
        self._tracker, self._step, self._group = context.statusTracker(), name, f"pybroker-{uuid.uuid4()}"
        context.setJobGroup(self._group, self.what)

    @property
    def tasks(self) -> SparkTasks:
        """Count tasks, including those of finished stages, which Spark's list of active stages omits."""
        tracker, done, total = self._tracker, 0, 0
        if tracker is None:
            return SparkTasks()
        for job in tracker.getJobIdsForGroup(self._group):
            about = tracker.getJobInfo(job)
            for stage in about.stageIds if about is not None else ():
                info = tracker.getStageInfo(stage)
                if about is not None and info is not None:
                    # If the result of a stage already exists, Spark skips the stage, and the tasks of the stage never
                    # end.
                    done += info.numTasks if about.status == "SUCCEEDED" else info.numCompletedTasks
                    total += info.numTasks
        return SparkTasks(done, total)

    def text(self, tasks: SparkTasks) -> str:
        """Return the progress as text, with the rows and bytes that the broker reports."""
        at = f"{tasks.done}/{tasks.total} tasks" if tasks.total else "" if self._step else "planning"
        parts = [each for each in (self._step, at) if each]
        if self._counts is not None and tasks.total:
            rows, size = self._counts()
            rate = rows / max(self.seconds, 0.001)
            parts.append(f"{rows:,} rows, {size / 1e6:,.1f} MB, {rate:,.0f} rows/s")
        return ", ".join(parts)

    @property
    def seconds(self) -> float:
        """Return seconds since the command began."""
        return self._clock() - self._started_s


@contextmanager
def progress(what: str, counts: ProgressCounts | None = None, console: Console | None = None) -> Iterator[Progress]:
    """Show the progress of the block on stderr. `what`: what the block does. The block updates the yielded Progress."""
    from rich.console import Console

    made = Progress(printable(what), counts)
    with _stderr() as stream:
        shown_on = console or Console(file=stream, highlight=False, markup=False, emoji=False)
        with _bar(made, shown_on) if shown_on.is_terminal else _lines(made, shown_on):
            yield made


@contextmanager
def _stderr() -> Iterator[TextIO]:
    """Yield a duplicate of stderr, because stderr is redirected while Spark starts."""
    try:
        copy = os.dup(sys.stderr.fileno())
    except OSError:  # In a test, stderr is not a file.
        yield sys.stderr
    else:
        with open(copy, "w", buffering=1) as stream:
            yield stream


@contextmanager
def _bar(made: Progress, console: Console) -> Iterator[None]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Bar(*columns, console=console) as bar:
        line = bar.add_task(made.what, total=None, text=made.text(SparkTasks()))

        def look() -> None:
            tasks = made.tasks
            bar.update(line, completed=tasks.done, total=tasks.total or None, text=made.text(tasks))

        with meanwhile(POLL_S, look):
            yield
        bar.update(line, completed=1, total=1)


@contextmanager
def _lines(made: Progress, console: Console) -> Iterator[None]:
    def look() -> None:
        summary = made.text(made.tasks)
        console.print(f"{made.what}: {summary}, {made.seconds:.0f} s", soft_wrap=True)

    with meanwhile(LINE_EVERY_S, look):
        yield


@contextmanager
def meanwhile(every_s: float, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` repeatedly in another thread while the block runs. The block itself raises Spark's errors."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every_s):
            with suppress(*spark_errors()):
                look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
