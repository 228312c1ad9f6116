"""`pybroker bench`: figures of a user's own, of his machine, his settings and his sizes.

| module | answers |
|---|---|
| `options` | what may be said on the command line, and the plan that it makes |
| `topic` | the topic that is made for a run and removed behind it |
| `produce`, `fetch`, `e2e` | one command each: what is measured, and how |
| `latencies` | many durations in little memory, and their percentiles |
| `report` | the bar while it runs; the table and the JSON at the end |
"""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "e2e": "pybroker.cli.bench.e2e:e2e",
    "fetch": "pybroker.cli.bench.fetch:fetch",
    "produce": "pybroker.cli.bench.produce:produce",
}
"""Verb → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def bench() -> None:
    """Measure what brokers do here: writing, reading, and the way through."""
