"""`python -m benches.compare`: measure the brokers in turn, round by round, and print one table.

The brokers run side by side, idle while it is not their turn; a round takes each case once with every broker
and once with the limit program, so that a ratio compares neighbours in time. Medians of the rounds count. Before the
first round of a case each broker is loaded with the case until the CPU of a request stands still (`benches/warm.py`).
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from benches.compare import front_page, load
from benches.compare.cases import CASES, CPU_REQUEST, Bar, Case, Figures
from benches.compare.peers import PEERS
from benches.readme import shown
from benches.warm import Warmth, until_steady
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
        self.runs: dict[str, Runs] = {}
        self.warmth: dict[str, dict[str, Warmth]] = {}

    def broker(self, peer: str) -> BrokerProcess:
        """The broker of a column, started when it is first needed."""
        if peer not in self.running:
            broker = PEERS[peer](self.folder / peer.replace(" ", "-"))
            broker.start()
            self.running[peer] = broker
        return self.running[peer]

    def stop(self) -> None:
        """Ends all brokers."""
        while self.running:
            self.running.popitem()[1].kill()

    def measure(self, case: Case, rounds: int) -> Runs:
        """All rounds of one case; a failed measurement is told and left out."""
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
        """What a restart costs (`live`) is cold by nature; of other cases no first run counts."""
        for peer in case.peers:
            try:
                if CPU_REQUEST in (self._once(case, peer, 0) or {}):
                    warmth = until_steady(partial(self._cpu_of_a_request, case, peer))
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


def warm_ups(warmth: dict[str, dict[str, Warmth]]) -> str:
    """How each broker was loaded before its case counted, as a table; nothing if no case was."""
    if not warmth:
        return ""
    lines = [
        "Loaded before: runs, and how much the CPU of a request differed over the last three of them",
        "",
        f"| case | {' | '.join(PEERS)} |",
        f"|---|{'---|' * len(PEERS)}",
    ]
    for case, found in warmth.items():
        lines.append(f"| {case} | {' | '.join(str(found.get(peer, '')) for peer in PEERS)} |")
    return "\n".join(lines)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each measurement is taken")
    parser.add_argument("--only", default="", help="a regular expression of case names")
    parser.add_argument("--log", type=Path, help="also append every measurement to this file, one JSON line each")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    parser.add_argument(
        "--readme", action="store_true", help="only the cases of README.md's table, whose rows are written there"
    )
    arguments = parser.parse_args()
    on_front_page = {row.case for row in front_page.ROWS}
    chosen = [case for case in CASES if re.search(arguments.only, case.name)]
    if arguments.readme:
        chosen = [case for case in chosen if case.name in on_front_page]
    load.build()
    table = [heading()]
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-", dir=arguments.dir) as folder:
        bench = Bench(Path(folder), arguments.log)
        try:
            for case in chosen:
                table += rows(case, bench.measure(case, arguments.rounds))
        finally:
            bench.stop()
    print(f"{platform.platform()}, {platform.machine()}; medians of {arguments.rounds} rounds\n")
    print("\n".join(table))
    print(f"\n{warm_ups(bench.warmth)}")
    if arguments.readme:
        front_page.publish(lambda case, peer, figure: middle(bench.runs.get(case, {}), peer, figure))


if __name__ == "__main__":
    main()
