"""Topic names and ids as arguments of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.shell_completion import topic_ids

if TYPE_CHECKING:
    from pybroker.native import Uuid

topic_id_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--topic-id",
    "--topic_id",
    "topic_id",
    metavar="ID",
    shell_complete=topic_ids,
    help="Topic id; selects exactly this topic, even if another topic now has its name.",
)


def parsed_id(text: str) -> Uuid:
    """Parse an id in any of its forms. Raises click.UsageError if it is invalid."""
    from pybroker.native import Uuid

    try:
        return Uuid.parse(text)
    except ValueError as problem:
        raise click.UsageError(f"{text!r} is not a topic id: {problem}") from None


def name_or_id(text: str) -> tuple[str | None, Uuid]:
    """Return (None, id) if a text looks like an id. If no topic has the id, the caller tries the text as a name."""
    from pybroker.native import Uuid

    try:
        return None, Uuid.parse(text)
    except ValueError:
        return text, Uuid.ZERO
