"""`python -m benches.compare`: measure the brokers in turn, round by round, and print one table.

The brokers run side by side, idle while it is not their turn; a round takes each case once with every broker
and once with the limit program, so that a ratio compares neighbours in time. Medians of the rounds count.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
from pathlib import Path
from statistics import median

from benches.compare import load
from benches.compare.cases import CASES, Bar, Case, Figures
from benches.compare.peers import PEERS
from benches.readme import shown
from tests.support.brokers import BrokerProcess

Runs = dict[str, list[Figures]]  # peer or "limit" → one dictionary a round


def middle(runs: Runs, peer: str, figure: str) -> float | None:
    """The median over the rounds, or None if the peer was not measured or has no such figure."""
    values = [run[figure] for run in runs.get(peer, []) if figure in run]
    return median(values) if values else None


def verdict(runs: Runs, bar: Bar) -> str:
    """The ratio of one bar, and whether it is met."""
    ours, theirs = middle(runs, bar.peer, bar.figure), middle(runs, bar.against, bar.figure)
    if ours is None or not theirs:
        return "not measured"
    ratio = ours / theirs
    met = ratio >= bar.ratio if bar.at_least else ratio <= bar.ratio
    wanted = f"{'≥' if bar.at_least else '≤'} {shown(bar.ratio)}"
    return f"{bar.peer} / {bar.against} = {shown(ratio)} (bar {wanted}: {'met' if met else 'MISSED'})"


def rows(case: Case, runs: Runs) -> list[str]:
    """The lines of one case, as a Markdown table row for each figure."""
    columns = [*PEERS, "limit"]
    lines = []
    for figure in case.shown():
        cells = [middle(runs, peer, figure) for peer in columns]
        bars = "; ".join(verdict(runs, bar) for bar in case.bars if bar.figure == figure)
        lines.append(
            f"| {case.name} | {figure} | " + " | ".join("" if c is None else shown(c) for c in cells) + f" | {bars} |"
        )
    return lines


def heading() -> str:
    """The first two lines of the table."""
    columns = ["case", "figure", *PEERS, "limit", "ratios"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


class Bench:
    """The running brokers and what has been measured of them."""

    def __init__(self, folder: Path, log: Path | None) -> None:
        self.folder = folder
        self.log = log
        self.running: dict[str, BrokerProcess] = {}

    def broker(self, peer: str) -> BrokerProcess:
        """The broker of a column, started when it is first needed."""
        if peer not in self.running:
            broker = PEERS[peer](self.folder / peer.replace(" ", "-"))
            broker.start()
            self.running[peer] = broker
            for _ in range(2):  # a JVM settles only under load
                load.run(broker, "many", topic="warm", idle=0, connections=8, duration="4s")
                load.run(broker, "produce", topic="warm", batch=64, size=1024, megabytes=600)
            load.run(broker, "delete", topic="warm")
        return self.running[peer]

    def stop(self) -> None:
        """Ends all brokers."""
        while self.running:
            self.running.popitem()[1].kill()

    def measure(self, case: Case, rounds: int) -> Runs:
        """All rounds of one case; a failed measurement is told and left out."""
        runs: Runs = {}
        if case.live:
            self.stop()
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


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each measurement is taken")
    parser.add_argument("--only", default="", help="a regular expression of case names")
    parser.add_argument("--log", type=Path, help="also append every measurement to this file, one JSON line each")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    arguments = parser.parse_args()
    load.build()
    table = [heading()]
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-", dir=arguments.dir) as folder:
        bench = Bench(Path(folder), arguments.log)
        try:
            for case in CASES:
                if re.search(arguments.only, case.name):
                    table += rows(case, bench.measure(case, arguments.rounds))
        finally:
            bench.stop()
    print(f"{platform.platform()}, {platform.machine()}; medians of {arguments.rounds} rounds\n")
    print("\n".join(table))


if __name__ == "__main__":
    main()
