"""`python -m benches.coordinators`: coordinators of one broker of each kind, in turn (`benches/compare/bench.py`)."""

from __future__ import annotations

import re

from benches.compare import load
from benches.compare.bench import parser, take
from benches.coordinators.cases import CASES, PEERS


def main() -> None:
    arguments = parser("python -m benches.coordinators", __doc__).parse_args()
    load.build_client()
    take(PEERS, [case for case in CASES if re.search(arguments.only, case.name)], arguments)


if __name__ == "__main__":
    main()
