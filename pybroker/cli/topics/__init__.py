"""`pybroker topics`: like Kafka's kafka-topics, with commands for topic ids."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "alter": "pybroker.cli.topics.changes:alter",
    "create": "pybroker.cli.topics.changes:create",
    "delete": "pybroker.cli.topics.changes:delete",
    "deletions": "pybroker.cli.topics.deletions:deletions",
    "describe": "pybroker.cli.topics.listing:describe",
    "history": "pybroker.cli.topics.history:history",
    "list": "pybroker.cli.topics.listing:list_topics",
    "purge": "pybroker.cli.topics.lives:purge",
    "truncate": "pybroker.cli.topics.lives:truncate",
    "undelete": "pybroker.cli.topics.lives:undelete",
}
"""Verb → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def topics() -> None:
    """Topics: what there is, changes, and what became of those that are gone."""
