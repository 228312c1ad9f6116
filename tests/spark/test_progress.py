"""The progress that commands show: real tasks of Spark, on a terminal and elsewhere."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from pybroker.cli.spark import progress as module
from pybroker.cli.spark.progress import Progress, SparkTasks, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT_S = 300
TASKS, GROUPS = 4, 2


def _until(what: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.02)


class Job:
    """A job whose tasks end on demand: TASKS of them first, then GROUPS together."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def run(self) -> None:
        folder, limit_s = str(self._folder), LIMIT_S

        def waits(task: int) -> int:
            give_up = time.monotonic() + limit_s
            while not Path(folder, str(task)).exists() and time.monotonic() < give_up:
                time.sleep(0.05)
            return task

        rows = self._spark.sparkContext.parallelize(range(TASKS), TASKS).map(waits)
        rows.map(lambda each: (each % GROUPS, each)).groupByKey(GROUPS).count()

    def end(self, task: int) -> None:
        """Let a task end."""
        (self._folder / str(task)).touch()


def test_tasks_are_counted_from_the_first_one_to_the_last(spark: SparkSession, tmp_path: Path) -> None:
    """Including those of ended stages; the next step begins at zero."""
    moving, job = Progress("a → b"), Job(spark, tmp_path)
    assert moving.text(moving.tasks) == "starting Spark"

    def work() -> None:
        moving.step(spark.sparkContext)
        job.run()

    worker = threading.Thread(target=work)
    worker.start()
    _until(lambda: moving.tasks.total >= TASKS)
    assert moving.tasks.done == 0
    for task in range(TASKS):
        job.end(task)
        _until(lambda: moving.tasks.done > task)  # noqa: B023 (asked before the next one)
    worker.join(LIMIT_S)
    _until(lambda: moving.tasks == SparkTasks(TASKS + GROUPS, TASKS + GROUPS))
    assert moving.text(moving.tasks) == "6/6 tasks"
    moving.step(spark.sparkContext, "part 2 of 5")
    assert moving.tasks == SparkTasks(0, 0)
    assert moving.text(moving.tasks) == "part 2 of 5"
    moving.step(spark.sparkContext)
    assert moving.text(moving.tasks) == "planning"


def _shown(spark: SparkSession, folder: Path, *, terminal: bool) -> list[str]:
    """Return the output once it shows one ended task, while the others run."""
    folder.mkdir()
    out, job = io.StringIO(), Job(spark, folder)
    console = Console(file=out, force_terminal=terminal, width=200)
    job.end(0)

    def watch() -> None:
        with suppress(AssertionError):
            _until(lambda: "1/" in out.getvalue())
        for task in range(TASKS):
            job.end(task)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with progress("files → orders", counts=lambda: (1_000_000, 64_000_000), console=console) as moving:
        moving.step(spark.sparkContext)
        job.run()
    watcher.join(LIMIT_S)
    return out.getvalue().splitlines()


def test_a_bar_and_lines_say_the_same(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines normally come every ten seconds, so that a log stays short; in this test they come more often."""
    one = f"1/{TASKS + GROUPS} tasks, 1,000,000 rows, 64.0 MB, "
    assert [line for line in _shown(spark, tmp_path / "bar", terminal=True) if one in line]
    assert module.LINE_EVERY_S == 10
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.2)
    lines = _shown(spark, tmp_path / "lines", terminal=False)
    assert [line for line in lines if one in line]
    assert all(line.startswith("files → orders: ") and line.endswith(" s") for line in lines), lines
