"""`pybroker groups`: consumer, share and streams groups, like Kafka's kafka-consumer-groups and its siblings."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "delete": "pybroker.cli.groups.offset_commands:delete",
    "delete-offsets": "pybroker.cli.groups.offset_commands:delete_offsets",
    "describe": "pybroker.cli.groups.group_listing:describe",
    "list": "pybroker.cli.groups.group_listing:list_groups",
    "reset-offsets": "pybroker.cli.groups.offset_commands:reset_offsets",
}
"""Verb → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def groups() -> None:
    """Manage consumer, share and streams groups."""
