"""Output of commands: a JSON document for programs, a table for people.

A JSON key has the same meaning in every command (docs/cli.md), and is also the column head in tables. Commands print
text only by `say` and `table`, never by click's `echo`: a name that a client has chosen may contain escape sequences.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

import click

from pybroker.printable import printable


class _Escaping(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n")


def escape_warnings() -> None:
    """Escape control characters in the warnings that the client library logs to stderr."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Escaping())


def say(text: str = "", *, err: bool = False) -> None:
    """Print one line for people on stdout or stderr. Control characters in it are escaped, except tabs."""
    click.echo(printable(text, keep="\t"), err=err)


def write_json(value: object) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(value, indent=2))


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print rows as a table on stdout. `columns` has the names of the columns in order; a missing value is empty.

    In a pipe, lines are not cut or wrapped, so that grep and cut work.
    """
    import rich.box
    from rich.console import Console
    from rich.table import Table

    made = Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        numbers = bool(rows) and all(isinstance(row.get(column), int) for row in rows)
        head = column.upper().replace("_", " ")
        made.add_column(head, justify="right" if numbers else "left", overflow="fold", no_wrap=True)
    for row in rows:
        made.add_row(*(_cell(row.get(column)) for column in columns))
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, emoji=False, width=100_000)
    console.print(made)


def _cell(value: object) -> str:
    return printable(_text(value))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in sorted(value.items()))
    return str(value)


def of_bytes(count: int) -> str:
    """Return a size for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
