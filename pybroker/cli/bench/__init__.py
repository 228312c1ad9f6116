"""`pybroker bench`: measures the user's machine with the user's settings and sizes.

- `bench_options`: the command line's options, and the plan made from them
- `bench_topic`: the topic that a run creates and removes
- `produce_bench`, `fetch_bench`, `e2e`: one measurement each
- `latencies`: many durations in little memory, and their percentiles
- `bench_report`: the progress bar; the table and the JSON at the end
"""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "e2e": "pybroker.cli.bench.e2e:e2e",
    "fetch": "pybroker.cli.bench.fetch_bench:fetch",
    "produce": "pybroker.cli.bench.produce_bench:produce",
}
"""Verb → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def bench() -> None:
    """Measure throughput and latency of a running cluster."""
