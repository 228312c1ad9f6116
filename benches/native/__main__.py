"""`python -m benches.native`: measure native functions and print tables of ids against names.

`python -m pytest benches/native --benchmark-only` also measures CRC and batches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches import readme
from benches.native.test_keys import KINDS
from benches.native.topics import COUNTS

FILES = ["test_keys.py", "test_lookup.py", "test_messages.py"]


def measured(seconds_max: float, topics_max: int) -> list[dict[str, Any]]:
    """Return pytest-benchmark's results of the cases with at most `topics_max` topics. Raises CalledProcessError if one
    fails."""
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(temporary) / "figures.json"
        command = [sys.executable, "-m", "pytest", *(str(folder / name) for name in FILES), "-q", "--benchmark-only"]
        command += ["--benchmark-disable-gc", f"--benchmark-max-time={seconds_max}", f"--benchmark-json={found}"]
        command += [f"--topics-max={topics_max}"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        figures: list[dict[str, Any]] = json.loads(found.read_text())["benchmarks"]
        return figures


def tables(figures: list[dict[str, Any]]) -> list[str]:
    """Return tables of the minimum time of the rounds, which other load on the machine hardly affects, and of bytes if
    a case has them."""
    return [_keys(figures), *_requests(figures)]


def _keys(figures: list[dict[str, Any]]) -> str:
    """Return ids against names of several lengths: one row per case."""
    times: dict[str, dict[str, float]] = {}
    sizes: dict[str, float] = {}
    for figure in figures:
        if kind := (figure["params"] or {}).get("kind"):
            times.setdefault(figure["group"], {})[kind] = figure["stats"]["min"] * 1e6
            if "bytes" in figure["extra_info"]:
                sizes[kind] = figure["extra_info"]["bytes"]
    names = [kind for kind in KINDS if kind != "id"]
    rows = {**times, "Python: bytes of a key": sizes}
    cells = {
        case: [readme.shown(found[kind]) for kind in KINDS]
        + [readme.shown(found["id"] / found[name]) for name in names]
        for case, found in rows.items()
    }
    return readme.table("Ids and names as keys, µs", "", [*KINDS, *(f"id / {name}" for name in names)], cells)


def _requests(figures: list[dict[str, Any]]) -> list[str]:
    """Return lookups and messages: one row per case, three columns per size."""
    by_case: dict[str, dict[tuple[int, str], dict[str, Any]]] = {}
    for figure in figures:
        params = figure["params"] or {}
        if "by" in params:
            by_case.setdefault(figure["group"], {})[params["count"], params["by"]] = figure
    times: dict[str, list[str]] = {}
    sizes: dict[str, list[str]] = {}
    for case, found in by_case.items():  # a Python client's encoded message has the same bytes that the broker decodes
        for count in COUNTS:
            name, topic_id = found.get((count, "name")), found.get((count, "id"))
            times.setdefault(case, []).extend(_cells(name, topic_id, lambda one: one["stats"]["min"] * 1e6))
            if "Python" not in case and name is not None and "bytes" in name["extra_info"]:
                sizes.setdefault(case, []).extend(_cells(name, topic_id, lambda one: one["extra_info"]["bytes"]))
    columns = [f"{count:,} by {by}" if by else "id / name" for count in COUNTS for by in ("name", "id", "")]
    return [
        readme.table("Time in µs, least of the rounds", "partitions", columns, times),
        readme.table("Bytes on the wire", "partitions", columns, sizes),
    ]


def _cells(name: Any, topic_id: Any, value: Any) -> list[str]:
    if name is None or topic_id is None:
        return ["", "", ""]
    return [readme.shown(value(name)), readme.shown(value(topic_id)), readme.shown(value(topic_id) / value(name))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="longest time per case in seconds, without its preparation"
    )
    parser.add_argument("--topics-max", type=int, default=COUNTS[-1], help="skip cases with more topics")
    readme.add_option(parser)
    arguments = parser.parse_args()
    readme.publish(
        "benches.native", tables(measured(arguments.seconds, arguments.topics_max)), into_readme=arguments.readme
    )


if __name__ == "__main__":
    main()
