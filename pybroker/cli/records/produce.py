"""`pybroker produce`: what stands in files or comes on stdin becomes records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pybroker.cli.completion import topic_names
from pybroker.cli.grammar import named
from pybroker.cli.options import Target, broker_options, refusals_told
from pybroker.cli.output import write_json
from pybroker.cli.records.options import client_settings, delimiter_option, key_separator_option, null_option

if TYPE_CHECKING:
    from pybroker.client import RecordMetadata

BLOCK_BYTES = 1 << 20

Fields = dict[str, Any]
"""What `Producer.enqueue` takes."""


@click.command()
@named("topic", "NAME", "Where to.", complete=topic_names)
@click.option("--file", "files", type=click.Path(path_type=Path), multiple=True, help="Instead of stdin; repeatable.")
@key_separator_option("What stands before it is the key.")
@click.option("--key", metavar="TEXT", help="The key of all records.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="For all records; repeatable.")
@click.option("--partition", type=click.IntRange(min=0), help="All to this one, instead of by the key.")
@click.option("--keep-partitions", is_flag=True, help="With --json: the partitions that the lines name.")
@click.option("--whole", is_flag=True, help="Each file, or all of stdin, is one record.")
@delimiter_option("Ends a record.")
@null_option("A value or key that is this text is none (a tombstone).")
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
    """Write records to the topic NAME: one a line, from stdin or files.

    With --json each line is an object as `pybroker consume --json` writes it: key, value, headers, timestamp_ms.
    """
    if target.json and (whole or key_separator is not None):
        raise click.UsageError("With --json the lines say what is key and value: no --whole, no --key-separator.")
    given: Fields = {
        "headers": _headers(headers) or None,
        "key": None if key is None else key.encode(),
        "partition": partition,
    }
    common = {name: value for name, value in given.items() if value is not None}
    texts = _whole(files) if whole else _split(files, delimiter)
    if target.json:
        rows = _from_json(texts, keep_partitions=keep_partitions)
    else:
        rows = _from_text(texts, key_separator, None if null is None else null.encode())
    with refusals_told():
        written = _send(topic, ({**row, **common} for row in rows), target, settings)
    _report(topic, written, target)


def _headers(given: Iterable[str]) -> list[tuple[str, bytes]]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.UsageError(f"--header {name}: say NAME=VALUE.")
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
    """Each record as soon as its end is there, with its place for messages. What stands behind the last delimiter is
    one too; an empty line is a record."""
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


def _from_text(
    texts: Iterable[tuple[str, bytes]], key_separator: bytes | None, null: bytes | None
) -> Iterator[Fields]:
    for _, text in texts:
        row: Fields = {"value": text}
        if key_separator is not None:
            key, found, value = text.partition(key_separator)
            if found:
                row = {"key": None if key == null else key, "value": value}
        if row["value"] == null:
            row["value"] = None
        yield row


def _from_json(texts: Iterable[tuple[str, bytes]], *, keep_partitions: bool) -> Iterator[Fields]:
    from pybroker.cli.records import lines

    for place, text in texts:
        if not text.strip():
            continue
        try:
            row = lines.decode(text)
        except ValueError as error:
            raise click.ClickException(f"{place} {error}") from None
        if not keep_partitions:
            del row["partition"]
        yield row


class _Written:
    """What brokers have acknowledged; called on the clients' thread."""

    def __init__(self) -> None:
        self.rows = 0
        self.last: dict[int, RecordMetadata] = {}
        self.error: Exception | None = None

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is None:
            self.error = self.error or error
            return
        self.rows += 1
        self.last[metadata.partition] = metadata


def _send(topic: str, rows: Iterable[Fields], target: Target, settings: dict[str, str]) -> _Written:
    """Ends with the first record that is not taken."""
    from pybroker.client.blocking import Producer

    written = _Written()
    with Producer({**target.client_config(), **settings}) as producer:
        try:
            for row in rows:
                producer.enqueue(topic, on_delivery=written, **row)
                if written.error is not None:
                    break
        finally:
            # What was read before a line that is wrong is written all the same.
            producer.flush()
    return written


def _report(topic: str, written: _Written, target: Target) -> None:
    partitions = [{"partition": index, "last": written.last[index].offset} for index in sorted(written.last)]
    if target.json:
        ids = {str(one.topic_id) for one in written.last.values()}
        topic_id = ids.pop() if ids else None
        write_json({"topic": topic, "topic_id": topic_id, "rows": written.rows, "partitions": partitions})
    else:
        click.echo(f"Wrote {written.rows} record{'' if written.rows == 1 else 's'} to {topic}.", err=True)
