"""`pybroker produce`: turns the content of files or stdin into records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import click

from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, refusals_told
from pybroker.cli.records.record_options import client_settings, delimiter_option, key_separator_option, null_option
from pybroker.cli.records.record_sender import Fields, Row, report, send
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.target import Target

BLOCK_BYTES = 1 << 20


@click.command()
@named("topic", "NAME", "Topic to write to.", complete=topic_names)
@click.option(
    "--file",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Read this file instead of stdin; repeatable.",
)
@key_separator_option("Text between the key and the value.")
@click.option("--key", metavar="TEXT", help="Key of all records.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Header of all records; repeatable.")
@click.option("--partition", type=click.IntRange(min=0), help="Partition of all records; default: by key.")
@click.option("--keep-partitions", is_flag=True, help="With --json: use the partitions of the lines.")
@click.option("--whole", is_flag=True, help="Write each file, or all of stdin, as one record.")
@delimiter_option("Text that ends a record.")
@null_option("Text that represents a missing key or value (a tombstone).")
@client_settings
@broker_options
def produce(
    topic: str,
    *,
    files: tuple[Path, ...],
    key_separator: bytes | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    keep_partitions: bool,
    whole: bool,
    delimiter: bytes,
    null: str | None,
    settings: dict[str, str],
    target: Target,
) -> None:
    """Write records to a topic.

    By default each line of stdin, or of the files, is a record.

    With --json each line is an object in the format of `pybroker consume --json`: key, value, headers, timestamp_ms.

    The command stops at the first failed record with exit code 1. The message has its line and the number of records
    written.
    """
    if target.json and (whole or key_separator is not None):
        raise click.UsageError(
            "--json cannot be combined with --whole or --key-separator: the lines contain key and value."
        )
    fields: Fields = {
        "headers": _headers(headers) or None,
        "key": None if key is None else key.encode(),
        "partition": partition,
    }
    common = {name: value for name, value in fields.items() if value is not None}
    texts = _whole(files) if whole else _split(files, delimiter)
    if target.json:
        rows = _from_json(texts, keep_partitions=keep_partitions)
    else:
        rows = _from_text(texts, key_separator, None if null is None else null.encode())
    filled = ((place, {**row, **common}) for place, row in rows)
    with refusals_told():
        written = send(topic, filled, {**target.client_config(), **settings})
    report(topic, written, as_json=target.json)


def _headers(texts: Iterable[str]) -> list[tuple[str, bytes]]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.UsageError(f"--header {name}: expected NAME=VALUE.")
    return [(name, value.encode()) for name, _, value in pairs]


def _inputs(files: Iterable[Path]) -> Iterator[tuple[str, BinaryIO]]:
    if not files:
        yield "stdin", sys.stdin.buffer
    for path in files:
        try:
            with path.open("rb") as file:
                yield str(path), file
        except OSError as error:
            raise click.ClickException(f"{path} cannot be read: {error.strerror}") from None


def _whole(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for name, file in _inputs(files):
        yield name, file.read()


def _split(files: Iterable[Path], delimiter: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each record as soon as it is complete, with its place for messages. An empty line is a record; text after
    the last delimiter is a record too."""
    for name, file in _inputs(files):
        rest = b""
        number = 0
        while block := file.read1(BLOCK_BYTES):  # type: ignore[attr-defined]  # buffered files have it
            *ended, rest = (rest + block).split(delimiter)
            for text in ended:
                number += 1
                yield f"{name}, line {number}", text
        if rest:
            yield f"{name}, line {number + 1}", rest


def _from_text(texts: Iterable[tuple[str, bytes]], key_separator: bytes | None, null: bytes | None) -> Iterator[Row]:
    for place, text in texts:
        row: Fields = {"value": text}
        if key_separator is not None:
            key, found, value = text.partition(key_separator)
            if found:
                row = {"key": None if key == null else key, "value": value}
        if row["value"] == null:
            row["value"] = None
        yield place, row


def _from_json(texts: Iterable[tuple[str, bytes]], *, keep_partitions: bool) -> Iterator[Row]:
    from pybroker.cli.records import json_records

    for place, text in texts:
        if not text.strip():
            continue
        try:
            row = json_records.decode(text)
        except ValueError as error:
            raise click.ClickException(f"{place} {error}") from None
        if not keep_partitions:
            del row["partition"]
        yield place, row
