"""Converts `--from` and `--to` of an archive (words, times, offsets) to options of the data source."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from pybroker.cli import time_formats

WORDS = {"--from": "earliest", "--to": "latest"}
PREFIXES = {"--from": "starting", "--to": "ending"}
OURS = {
    **{f"{prefix}{what}": name for name, prefix in PREFIXES.items() for what in ("Offsets", "Timestamp")},
    "use failOnDataLoss=false to read existing records only": "--from and --to must lie within them",
}
MS_DIGITS = 13
"""Digits of milliseconds since 1970, from 2001 to 2286. A number with another count of digits may be seconds or a date.
"""


def bound(_context: click.Context | None, parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """Return the data source's options for `--from` or `--to`: a word, a time or offsets as JSON.

    Raises click.BadParameter if the text is none of these.
    """
    name = parameter.opts[0]
    prefix, word = PREFIXES[name], WORDS[name]
    if text is None:
        return {}
    if text == word:
        return {f"{prefix}Offsets": text}
    if text.startswith("{"):
        return {f"{prefix}Offsets": _offsets(text)}
    # If all records are older than the start time, there is nothing to read.
    later = {"startingOffsetsByTimestampStrategy": "latest"} if name == "--from" else {}
    return {f"{prefix}Timestamp": str(_milliseconds(text, word)), **later}


def _offsets(text: str) -> str:
    try:
        for places in json.loads(text).values():
            for partition, offset in places.items():
                int(partition), int(offset)
    except (AttributeError, TypeError, ValueError):
        raise click.BadParameter(f'{text}: expected a JSON object such as {{"topic": {{"0": 5}}}}') from None
    return text


def _milliseconds(text: str, word: str) -> int:
    if text.isdecimal():
        if len(text) != MS_DIGITS:
            raise click.BadParameter(
                f"{text}: expected milliseconds since 1970 ({MS_DIGITS} digits) or a date such as 2026-11-01"
            )
        return int(text)
    try:
        found = time_formats.moment(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
    if found is None:
        raise click.BadParameter(
            f"{text}: expected {word}, an ISO time (UTC unless it has a zone), milliseconds since 1970 or offsets as "
            "JSON"
        )
    return found


def check_order(start: dict[str, str], end: dict[str, str]) -> None:
    """Raise click.ClickException if the end is not after the start."""
    first, last = (int(each.get(name, -1)) for each, name in ((start, "startingTimestamp"), (end, "endingTimestamp")))
    if 0 <= last <= first:
        times = [dt.datetime.fromtimestamp(each / 1000, dt.UTC).isoformat() for each in (first, last)]
        raise click.ClickException(f"--from {times[0]} is not before --to {times[1]}")


@contextmanager
def named_as_here() -> Iterator[None]:
    """In errors, replace the names of the data source's options by the names of the command's options."""
    try:
        yield
    except click.ClickException as error:
        text = error.message
        for theirs, here in OURS.items():
            text = text.replace(theirs, here)
        raise click.ClickException(text) from None
