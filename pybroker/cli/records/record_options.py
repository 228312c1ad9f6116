"""Common options of `produce` and `consume`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pybroker.cli.records.template import unescaped

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback for an option that applies `parse` to the option's text. A ValueError of `parse` becomes the
    reason of a usage error."""

    def callback(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _separator(text: str) -> bytes:
    found = unescaped(text)
    if not found:
        raise ValueError("it must not be empty")
    return found


def key_separator_option(what: str) -> Decorator:
    """Add `--key-separator`."""
    return click.option("--key-separator", "-K", callback=parsed(_separator), metavar="TEXT", help=what)


def delimiter_option(what: str) -> Decorator:
    """Add `--delimiter`."""
    return click.option(
        "--delimiter", "-D", callback=parsed(_separator), default="\\n", show_default=True, metavar="TEXT", help=what
    )


def null_option(what: str) -> Decorator:
    """Add `--null`."""
    return click.option("--null", metavar="TEXT", help=what)


def client_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--command-property`; the function gets them as `settings`, by name."""

    @click.option(
        "--command-property",
        "properties",
        metavar="KEY=VALUE",
        multiple=True,
        help="Client setting (docs/client.md); repeatable.",
    )
    @functools.wraps(command)
    def with_settings(*args: object, properties: tuple[str, ...], **rest: object) -> None:
        pairs = [text.partition("=") for text in properties]
        for text, (name, equals, _) in zip(properties, pairs, strict=True):
            if not name or not equals:
                raise click.UsageError(f"--command-property {text}: expected KEY=VALUE.")
        command(*args, settings={name: value for name, _, value in pairs}, **rest)

    return with_settings
