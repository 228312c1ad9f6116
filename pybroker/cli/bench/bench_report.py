"""The progress bar of a run, and the table or JSON at its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from pybroker.cli.bench.latencies import RunFigures
from pybroker.cli.output import say, table, write_json

if TYPE_CHECKING:
    from pybroker.cli.bench.bench_options import BenchPlan

SHOW_EVERY_S = 0.1


class Bar:
    """The progress of a run. Updates are cheap."""

    def __init__(self, plan: BenchPlan, started_s: float) -> None:
        self._plan, self._started_s, self._shown_s = plan, started_s, 0.0
        self.update: Callable[[int, float], None] | None = None
        """Shows progress: called with a number of records and a number of seconds. None if there is no bar."""

    def show(self, records: int) -> None:
        """Show the number of records done so far."""
        now = time.monotonic()
        if self.update is not None and now - self._shown_s >= SHOW_EVERY_S:
            self._shown_s = now
            self.update(records, now - self._started_s)


@contextlib.contextmanager
def bar(plan: BenchPlan, what: str) -> Iterator[Bar]:
    """Show a bar on stderr if it is a terminal; show nothing otherwise, or with --json."""
    from rich.console import Console

    made = Bar(plan, time.monotonic())
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if plan.target.json or not console.is_terminal:
        yield made
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        line = shown.add_task(what, total=1.0, text="")

        def update(records: int, seconds: float) -> None:
            shares = (
                records / plan.records if plan.records is not None else 0.0,
                seconds / plan.seconds if plan.seconds is not None else 0.0,
            )
            rate = records / max(seconds, 0.001)
            text = f"{records:,} records, {rate:,.0f}/s, {rate * plan.size / 1e6:,.1f} MB/s"
            shown.update(line, completed=min(1.0, max(shares)), text=text)

        made.update = update
        yield made


def report(plan: BenchPlan, what: str, measured: RunFigures, of: str) -> None:
    """Print the result. `of`: the operation that the latencies measure."""
    records, size, seconds, latencies = measured
    if not records:
        raise click.ClickException("No record was finished in the given time; use a longer --seconds.")
    seconds = max(seconds, 1e-9)
    document = {
        "what": what,
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds, 1),
        "bytes_per_second": round(size / seconds, 1),
        "latency_of": of,
        "latencies_count": latencies.count,
        "latencies": latencies.rows(),
    }
    if plan.target.json:
        write_json(document)
        return
    rate, megabytes = records / seconds, size / 1e6 / seconds
    of_bytes = f"{records:,} records of {size / records:,.0f} bytes"
    say(f"{what}: {of_bytes} in {seconds:.2f} s: {rate:,.0f}/s, {megabytes:,.1f} MB/s")
    say(f"latency: {of} ({latencies.count:,} measured)")
    rows = [{"percentile": _share(row["percentile"]), "ms": f"{row['latency_ms']:,.3f}"} for row in latencies.rows()]
    table(rows, ["percentile", "ms"])


def _share(percentile: float | None) -> str:
    return "max" if percentile == 100.0 else f"p{percentile:g}"
