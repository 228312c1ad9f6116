"""`pybroker topics`: like Kafka's kafka-topics, with commands for topic ids."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "alter": "pybroker.cli.topics.topic_commands:alter",
    "create": "pybroker.cli.topics.topic_commands:create",
    "delete": "pybroker.cli.topics.topic_commands:delete",
    "deletions": "pybroker.cli.topics.deletion_commands:deletions",
    "describe": "pybroker.cli.topics.topic_listing:describe",
    "history": "pybroker.cli.topics.history_command:history",
    "list": "pybroker.cli.topics.topic_listing:list_topics",
    "purge": "pybroker.cli.topics.lifecycle:purge",
    "truncate": "pybroker.cli.topics.lifecycle:truncate",
    "undelete": "pybroker.cli.topics.lifecycle:undelete",
}
"""Verb → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def topics() -> None:
    """Manage topics, also deleted ones."""
