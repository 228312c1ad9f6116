"""`python -m benches.spark`: both connectors with their brokers in turn, round by round, and one table.

A round runs each case once with every column, so a ratio compares measurements close in time. Results are medians of
the rounds. The brokers run side by side and idle outside of their turn. `net` excludes the time to create the rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benches.compare import load
from benches.compare.case import CPU_GB
from benches.compare.peers import PEERS
from benches.ingest import attach, neighbours
from benches.readme import shown
from benches.spark import cases as known
from benches.spark.cases import (
    ATTACH,
    BROKER,
    CASES,
    COLD_S,
    FLUSH_MODES,
    KEY_VALUE,
    LIMIT,
    LIMIT_CPU,
    NEIGHBOURS,
    NET,
    RATE,
    SPARK,
    Case,
)
from benches.spark.columns import COLUMNS, KAFKA, Column
from benches.spark.jobs import Figures, Jobs, generate, hand_over, session
from benches.spark.table import Runs, table
from benches.warm import until_steady
from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_ROWS, WARM_S_MAX = 1_000_000, 60.0
FRAMING_BYTES = 17  # A key of 7 bytes, and the lengths, deltas and attributes of a record.
LIMIT_MB_MIN = 300


class Bench:
    """The running brokers, Spark, and the measurements."""

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder = folder
        self._scale = scale
        self._brokers: dict[str, BrokerProcess] = {}
        self._jobs: dict[str, Jobs] = {}
        self._spark: SparkSession | None = None
        self.runs = Runs()
        self.failed: list[str] = []
        self.warmth: list[str] = []

    def start(self) -> None:
        """Start Spark and the brokers and warm them up: a JVM only becomes fast under load."""
        self._spark = session()
        for column in COLUMNS:
            if column.broker not in self._brokers:
                broker = PEERS[column.broker](self._folder / column.broker.replace(" ", "-"))
                broker.start()
                self._brokers[column.broker] = broker
        hand_over(self._spark, WARM_ROWS, 100, self._pids)
        for column in COLUMNS:
            print(f"warming {column.name}", file=sys.stderr, flush=True)
            jobs = Jobs(self._spark, column, self._brokers[column.broker])
            self._jobs[column.name] = jobs
            for kind, run in (
                ("write", partial(jobs.write, WARM_ROWS, 100, self._pids)),
                ("read key and value", partial(jobs.read, WARM_ROWS, 100, self._pids, KEY_VALUE)),
                ("read", partial(jobs.read, WARM_ROWS, 100, self._pids, ())),
                ("stream", partial(jobs.stream, WARM_ROWS, 100, self._pids)),
            ):
                warmth = until_steady(partial(_cpu_of_a_row, run), WARM_S_MAX)
                self.warmth.append(f"{column.name}, {kind}: {warmth}")
                print(f"  {self.warmth[-1]}", file=sys.stderr, flush=True)
            jobs.forget(100)

    def stop(self) -> None:
        """Stop Spark and the brokers."""
        if self._spark is not None:
            self._spark.stop()
        while self._brokers:
            self._brokers.popitem()[1].kill()

    @property
    def _pids(self) -> set[int]:
        return {broker.pid for broker in self._brokers.values()}

    def round(self, cases: list[Case]) -> None:
        """Run each case once with every column; delete the topics of a size after its last case."""
        for at, case in enumerate(cases):
            if case.kind == "write":
                self._generate(case)
                self._take(case.name, LIMIT, partial(self._hand_over, case))
            if case.with_limit:
                self._take(case.name, LIMIT, partial(self._limit, case))
            for column in COLUMNS:
                self._take(case.name, column.name, partial(self._job, case, column))
            if at + 1 == len(cases) or cases[at + 1].size != case.size:
                for jobs in self._jobs.values():
                    jobs.forget(case.size)

    def _generate(self, case: Case) -> None:
        assert self._spark is not None, "started"
        figures = generate(self._spark, self._rows(case), case.size, self._pids)
        self._generated = figures[SPARK]
        print(f"{case.name:28s} {'(rows made)':16s} {_brief(figures)}", file=sys.stderr, flush=True)

    def _hand_over(self, case: Case) -> Figures:
        assert self._spark is not None, "started"
        figures = hand_over(self._spark, self._rows(case), case.size, self._pids)
        return {RATE: figures[RATE], SPARK: figures[SPARK], NET: figures[SPARK] - self._generated}

    def _limit(self, case: Case, rows_per_s: float = 0, sync_bytes: int = 0) -> Figures:
        """Return the CPU of the limit program for the bytes of the case; `rows_per_s` 0 is full speed."""
        row = case.size + FRAMING_BYTES
        megabytes = max(LIMIT_MB_MIN, int(self._rows(case) * row / 1e6))
        pace = int(rows_per_s * row / 1e6)
        time.sleep(COLD_S)
        figures = load.limit("produce", 2, megabytes, self._folder / LIMIT, pace=pace, sync=sync_bytes)
        return {LIMIT_CPU: figures[CPU_GB] * row / 1e3}  # s/GB × bytes = ns

    def _rows(self, case: Case) -> int:
        return max(1000, int(case.rows * self._scale))

    def _job(self, case: Case, column: Column) -> Figures:
        jobs, rows = self._jobs[column.name], self._rows(case)
        if case.kind == "write":
            time.sleep(COLD_S if case.with_limit else 0)
            figures = jobs.write(rows, case.size, self._pids)
            paced = case.with_limit and column.name != KAFKA
            limit = self._limit(case, figures[RATE], column.sync_bytes) if paced else {}
            return {**figures, **limit, NET: figures[SPARK] - self._generated}
        if case.kind == "stream":
            return jobs.stream(rows, case.size, self._pids)
        return jobs.read(rows, case.size, self._pids, case.columns)

    def alone(self, case: str) -> None:
        """Run a case without Spark, once for each flush mode."""
        for name, settings in FLUSH_MODES.items():
            if case == ATTACH:
                self._take(case, name, partial(attach.run, known.ATTACH_GB * self._scale, 4, settings))
            else:
                self._take(case, name, partial(self._neighbours, {**settings, **NEIGHBOURS[case]}))

    def _neighbours(self, settings: dict[str, str]) -> Figures:
        figures = neighbours.run(known.neighbour_seconds(self._scale), settings)
        quiet = (figures["alone_p99_ms"] + figures["again_p99_ms"]) / 2
        return {**figures, "p99_ratio": figures["beside_p99_ms"] / quiet}

    def _take(self, case: str, column: str, measure: Callable[[], Figures]) -> None:
        try:
            figures = measure()
        except Exception as error:  # Spark, a broker or a count is wrong: go on.
            self.failed.append(f"{case}, {column}")
            print(f"{self.failed[-1]}: FAILED: {error}", file=sys.stderr, flush=True)
            return
        self.runs.add(case, column, figures)
        print(f"{case:28s} {column:16s} {_brief(figures)}", file=sys.stderr, flush=True)


def _cpu_of_a_row(job: Callable[[], Figures]) -> float:
    """Return the CPU of Spark and its broker together: both have a JVM that warms up."""
    figures = job()
    return figures[SPARK] + figures[BROKER]


def _brief(figures: Figures) -> str:
    return "  ".join(f"{name}={shown(value)}" for name, value in figures.items())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the rows and bytes (0.1: a quick check)")
    parser.add_argument("--only", default="", help="measure only cases whose name matches this regular expression")
    parser.add_argument("--dir", type=Path, help="folder for the brokers' data: up to 25 GB at full size")
    arguments = parser.parse_args()
    cases = [case for case in CASES if re.search(arguments.only, case.name)]
    alone = [name for name in (ATTACH, *NEIGHBOURS) if re.search(arguments.only, name)]
    estimate = known.estimated_seconds(cases, alone, arguments.scale, arguments.rounds)
    print(f"about {estimate / 60:.0f} minutes on two quiet cores", file=sys.stderr, flush=True)
    load.build_limit()
    begun = time.monotonic()
    if arguments.dir:
        os.environ["TMPDIR"] = str(arguments.dir)  # For the brokers of the cases without Spark as well.
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-", dir=arguments.dir) as folder:
        bench = Bench(Path(folder), arguments.scale)
        try:
            if cases:
                bench.start()
            for _ in range(arguments.rounds):
                bench.round(cases)
        finally:
            bench.stop()
        for _ in range(arguments.rounds):
            for name in alone:
                bench.alone(name)
    took = (time.monotonic() - begun) / 60
    print(
        f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} cores; scale {arguments.scale:g}, "
        f"medians of {arguments.rounds} rounds; {took:.1f} minutes, load average {os.getloadavg()[1]:.1f}\n"
    )
    print(table(bench.runs, cases, alone))
    print("\nLoaded before: runs, and how much the CPU of a row differed over the last three of them\n")
    print("\n".join(bench.warmth))
    if bench.failed:
        raise SystemExit("failed, and not in the table: " + "; ".join(bench.failed))


if __name__ == "__main__":
    main()
