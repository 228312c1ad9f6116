"""`python -m benches.compare`: one broker of each kind, in turn (`bench.py`)."""

from __future__ import annotations

import argparse
import platform
import re
import tempfile
from pathlib import Path

from benches.compare import front_page, load
from benches.compare.bench import Bench, heading, middle, rows, warm_ups
from benches.compare.cases import CASES
from benches.compare.peers import PEERS


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
    table = [heading(PEERS)]
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-", dir=arguments.dir) as folder:
        bench = Bench(PEERS, Path(folder), arguments.log)
        try:
            for case in chosen:
                table += rows(case, bench.measure(case, arguments.rounds), PEERS)
        finally:
            bench.stop()
    print(f"{platform.platform()}, {platform.machine()}; medians of {arguments.rounds} rounds\n")
    print("\n".join(table))
    print(f"\n{warm_ups(bench.warmth, PEERS)}")
    if arguments.readme:
        front_page.publish(lambda case, peer, figure: middle(bench.runs.get(case, {}), peer, figure))


if __name__ == "__main__":
    main()
