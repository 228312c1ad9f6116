"""`pybroker ingest`: loads files into a topic exactly once, and manages the ingests of a broker."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "abort": "pybroker.cli.ingest.ingest_commands:abort",
    "describe": "pybroker.cli.ingest.ingest_commands:describe",
    "list": "pybroker.cli.ingest.ingest_commands:list_ingests",
    "load": "pybroker.cli.ingest.load_command:load",
}
"""Verb → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def ingest() -> None:
    """Load files into topics exactly once."""
