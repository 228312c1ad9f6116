"""Measures systems alternately and prints one table.

They run side by side, and idle while another is measured. A round runs each case once with every system and once with
the limit program: a ratio compares measurements close in time. Results are medians of the rounds. Before the first
round of a case each system runs the case until its CPU per request is stable (`benches/warm.py`).
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Protocol

from benches.compare.case import CPU_REQUEST, Bar, Case, Figures
from benches.readme import shown
from benches.warm import SECONDS_MAX, Warmth, until_steady

Runs = dict[str, list[Figures]]  # system or "limit" → one dictionary per round


def middle(runs: Runs, peer: str, figure: str) -> float | None:
    """Return the median over the rounds, or None if the system was not measured or lacks the figure."""
    values = [run[figure] for run in runs.get(peer, []) if figure in run]
    return median(values) if values else None


def verdict(runs: Runs, bar: Bar) -> str:
    """Return the ratio of one bar, and whether it is met."""
    ours = middle(runs, bar.peer, bar.figure)
    theirs = middle(runs, bar.against, bar.figure) if bar.against else 1.0
    if ours is None or not theirs:
        return "not measured"
    ratio = ours / theirs
    met = ratio >= bar.ratio if bar.at_least else ratio <= bar.ratio
    wanted = f"{'≥' if bar.at_least else '≤'} {shown(bar.ratio)}"
    of = f"{bar.peer} / {bar.against}" if bar.against else bar.peer
    return f"{of} = {shown(ratio)} (bar {wanted}: {'met' if met else 'MISSED'})"


def parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every table."""
    made = argparse.ArgumentParser(prog=prog, description=description)
    made.add_argument("--rounds", type=int, default=3, help="number of rounds")
    made.add_argument("--only", default="", help="measure only cases whose name matches this regular expression")
    made.add_argument("--log", type=Path, help="append each measurement to this file as a JSON line")
    made.add_argument(
        "--warm", type=float, default=SECONDS_MAX, help="longest time to warm a broker for a case, in seconds"
    )
    made.add_argument("--dir", type=Path, help="folder for the brokers' data (default: a temporary folder)")
    return made


def take(peers: Peers, cases: Iterable[Case], arguments: argparse.Namespace) -> dict[str, Runs]:
    """Measure the cases, print the table, and return the measurements."""
    table = [heading(peers)]
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-", dir=arguments.dir) as folder:
        bench = Bench(peers, Path(folder), arguments.log, arguments.warm)
        try:
            for case in cases:
                table += rows(case, bench.measure(case, arguments.rounds), peers)
        finally:
            bench.stop()
    print(f"{platform.platform()}, {platform.machine()}; medians of {arguments.rounds} rounds\n")
    print("\n".join(table))
    print(f"\n{warm_ups(bench.warmth, peers)}")
    return bench.runs


def rows(case: Case, runs: Runs, peers: Collection[str]) -> list[str]:
    """Return the lines of one case: a Markdown table row for each figure."""
    columns = [*peers, "limit"]
    lines = []
    for figure in case.shown():
        cells = [middle(runs, peer, figure) for peer in columns]
        bars = "; ".join(verdict(runs, bar) for bar in case.bars if bar.figure == figure)
        lines.append(
            f"| {case.name} | {figure} | " + " | ".join("" if c is None else shown(c) for c in cells) + f" | {bars} |"
        )
    return lines


def heading(peers: Collection[str]) -> str:
    """Return the first two lines of the table."""
    columns = ["case", "figure", *peers, "limit", "ratios"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


class Peer(Protocol):
    """A measured system: a broker or a cluster."""

    def start(self) -> None:
        """Start, and return when it answers."""
        ...

    def kill(self) -> object:
        """Kill it."""
        ...


Peers = Mapping[str, Callable[[Path], Peer]]
"""Name of the column → factory of its system."""


class Bench:
    """The running systems and their measurements."""

    def __init__(self, peers: Peers, folder: Path, log: Path | None, warm_s: float = SECONDS_MAX) -> None:
        self.peers = peers
        self.folder = folder
        self.log = log
        self._warm_s = warm_s
        self.running: dict[str, Peer] = {}
        self.runs: dict[str, Runs] = {}
        self.warmth: dict[str, dict[str, Warmth]] = {}

    def broker(self, peer: str) -> Peer:
        """Return the system of a column; start it on first use."""
        if peer not in self.running:
            broker = self.peers[peer](self.folder / peer.replace(" ", "-"))
            broker.start()
            self.running[peer] = broker
        return self.running[peer]

    def stop(self) -> None:
        """Stop all systems."""
        while self.running:
            self.running.popitem()[1].kill()

    def measure(self, case: Case, rounds: int) -> Runs:
        """Run all rounds of one case; report a failed measurement and leave it out."""
        runs = self.runs[case.name] = {}
        if case.live:
            self.stop()
        else:
            self._warm(case)
        for number in range(rounds):
            for peer in (*case.peers, "limit"):
                try:
                    figures = self._once(case, peer, number)
                except (RuntimeError, OSError) as error:
                    print(f"{case.name}, {peer}: FAILED: {error}", file=sys.stderr, flush=True)
                    continue
                if figures:
                    runs.setdefault(peer, []).append(figures)
                    self._keep(case, peer, figures)
        return runs

    def _warm(self, case: Case) -> None:
        """Warm up a system, except for cases that start it (`live`), which measure a cold system."""
        for peer in case.peers:
            try:
                if CPU_REQUEST in (self._once(case, peer, 0) or {}):
                    warmth = until_steady(partial(self._cpu_of_a_request, case, peer), self._warm_s)
                    self.warmth.setdefault(case.name, {})[peer] = warmth
                    print(f"{case.name:48s} {peer:12s} warm: {warmth}", file=sys.stderr, flush=True)
            except (RuntimeError, OSError) as error:
                print(f"{case.name}, {peer}: warming FAILED: {error}", file=sys.stderr, flush=True)

    def _cpu_of_a_request(self, case: Case, peer: str) -> float:
        return float((self._once(case, peer, 0) or {})[CPU_REQUEST])

    def _once(self, case: Case, peer: str, number: int) -> Figures | None:
        if peer == "limit":
            return case.limit(self.folder / "limit") if case.limit else None
        if case.live:
            return case.live(peer, self.folder / f"live-{number}-{peer.replace(' ', '-')}")
        assert case.measure is not None
        return case.measure(self.broker(peer))

    def _keep(self, case: Case, peer: str, figures: Figures) -> None:
        brief = "  ".join(f"{name}={shown(figures[name])}" for name in case.shown() if name in figures)
        print(f"{case.name:48s} {peer:12s} {brief}", file=sys.stderr, flush=True)
        if self.log:
            with self.log.open("a") as out:
                out.write(json.dumps({"case": case.name, "peer": peer, **figures}) + "\n")


def warm_ups(warmth: dict[str, dict[str, Warmth]], peers: Collection[str]) -> str:
    """Return a table of the warm-ups of each system and case; empty without any."""
    if not warmth:
        return ""
    lines = [
        "Loaded before: runs, and how much the CPU of a request differed over the last three of them",
        "",
        f"| case | {' | '.join(peers)} |",
        f"|---|{'---|' * len(peers)}",
    ]
    for case, found in warmth.items():
        lines.append(f"| {case} | {' | '.join(str(found.get(peer, '')) for peer in peers)} |")
    return "\n".join(lines)
