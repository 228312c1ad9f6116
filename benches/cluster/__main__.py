"""`python -m benches.cluster`: three brokers of each kind, in turn (`benches/compare/bench.py`)."""

from __future__ import annotations

import argparse
import platform
import re
import tempfile
from pathlib import Path

from benches.cluster.cases import CASES
from benches.cluster.peers import PEERS
from benches.compare import load
from benches.compare.bench import Bench, heading, rows, warm_ups


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benches.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each measurement is taken")
    parser.add_argument("--only", default="", help="a regular expression of case names")
    parser.add_argument("--log", type=Path, help="also append every measurement to this file, one JSON line each")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    arguments = parser.parse_args()
    load.build_client()
    table = [heading(PEERS)]
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-", dir=arguments.dir) as folder:
        bench = Bench(PEERS, Path(folder), arguments.log)
        try:
            for case in CASES:
                if re.search(arguments.only, case.name):
                    table += rows(case, bench.measure(case, arguments.rounds), PEERS)
        finally:
            bench.stop()
    print(f"{platform.platform()}, {platform.machine()}; medians of {arguments.rounds} rounds\n")
    print("\n".join(table))
    print(f"\n{warm_ups(bench.warmth, PEERS)}")


if __name__ == "__main__":
    main()
