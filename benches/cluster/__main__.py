"""`python -m benches.cluster`: three brokers of each kind, in turn (`benches/compare/bench.py`)."""

from __future__ import annotations

import re

from benches.cluster.cases import CASES
from benches.cluster.peers import PEERS
from benches.compare import load
from benches.compare.bench import parser, take


def main() -> None:
    arguments = parser("python -m benches.cluster", __doc__).parse_args()
    load.build_client()
    take(PEERS, [case for case in CASES if re.search(arguments.only, case.name)], arguments)


if __name__ == "__main__":
    main()
