"""`python -m benches.compare`: one broker of each kind, in turn (`bench.py`)."""

from __future__ import annotations

import re

from benches.compare import front_page, load
from benches.compare.bench import middle, parser, take
from benches.compare.cases import CASES
from benches.compare.peers import PEERS


def main() -> None:
    options = parser("make bench", __doc__)
    options.add_argument(
        "--readme", action="store_true", help="run only the cases of README.md's table and write its rows"
    )
    arguments = options.parse_args()
    on_front_page = {row.case for row in front_page.ROWS}
    chosen = [case for case in CASES if re.search(arguments.only, case.name)]
    if arguments.readme:
        chosen = [case for case in chosen if case.name in on_front_page]
    load.build()
    runs = take(PEERS, chosen, arguments)
    if arguments.readme:
        front_page.publish(lambda case, peer, figure: middle(runs.get(case, {}), peer, figure))


if __name__ == "__main__":
    main()
