"""`pybroker consume`: records of a topic on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, refusals_told
from pybroker.cli.records import offset_specs
from pybroker.cli.records.offset_specs import OffsetPosition
from pybroker.cli.records.record_options import (
    client_settings,
    delimiter_option,
    key_separator_option,
    null_option,
    parsed,
)
from pybroker.cli.records.template import compiled
from pybroker.cli.shell_completion import group_names, topic_names
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import absent_topic

if TYPE_CHECKING:
    from pybroker.client import ConsumerRecord
    from pybroker.client.blocking import Consumer

SETTINGS = {"on.topic.missing": "fail", "allow.auto.create.topics": "false", "auto.offset.reset": "earliest"}
POLL_S = 0.2
RECORDS_A_POLL = 10_000

Shown = Callable[["ConsumerRecord"], bytes]
"""Converts a record to output."""


def place_option(name: str, parameter: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add `--from` or `--to`."""
    return click.option(name, parameter, callback=parsed(offset_specs.parse), metavar="PLACE", help=what)


@click.command()
@named("topic", "NAME", "Topic to read.", complete=topic_names)
@click.option(
    "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Read only this partition; repeatable."
)
@place_option("--from", "begin", f"Where to begin: {offset_specs.GRAMMAR}.")
@place_option("--to", "stop", "End position, exclusive.")
@click.option("--follow", is_flag=True, help="Continue with new records as they arrive.")
@click.option("--max", "limit", type=click.IntRange(min=1), metavar="N", help="Stop after this many records.")
@click.option(
    "--group",
    metavar="NAME",
    shell_complete=group_names,
    help="Read as a member of this group; commit the records that were written out.",
)
@click.option(
    "--format",
    "template",
    metavar="TEXT",
    help="Output format with kcat's letters: '%t %p %o %T %k %s\\n' (docs/cli.md).",
)
@key_separator_option("Write the key, this separator and the value.")
@delimiter_option("Text after each record.")
@null_option("Text for a missing key or value.")
@client_settings
@broker_options
def consume(
    topic: str,
    *,
    partitions: tuple[int, ...],
    begin: OffsetPosition | None,
    stop: OffsetPosition | None,
    follow: bool,
    limit: int | None,
    group: str | None,
    template: str | None,
    key_separator: bytes | None,
    delimiter: bytes,
    null: str | None,
    settings: dict[str, str],
    target: Target,
) -> None:
    """Write the records of a topic to stdout.

    By default from the first record to the current end of the topic NAME.

    With --json each record is a JSON object on a line of its own.
    """
    if group is not None and (partitions or begin is not None or stop is not None):
        raise click.UsageError(
            "--group cannot be combined with --partition, --from or --to: the group decides what to read."
        )
    if follow and stop is not None:
        raise click.UsageError("Use either --to or --follow, not both.")
    if template is not None and (target.json or key_separator is not None):
        raise click.UsageError("Use only one of --format, --json and --key-separator.")
    show = _shown(target, template, key_separator, delimiter, b"" if null is None else null.encode())
    output = Output(show, limit)
    config = {**target.client_config(), **SETTINGS, **settings}
    with refusals_told():
        try:
            if group is None:
                between = begin or OffsetPosition("start"), None if follow else stop or OffsetPosition("end")
                if not _read(config, topic, partitions, between, output):
                    raise click.ClickException(absent_topic(target, topic))
            else:
                _read_as_member({**config, "group.id": group}, topic, output, follow=follow)
        except KeyboardInterrupt:
            # The user ends `--follow` with Ctrl-C.
            return
        except BrokenPipeError:
            # The reader has closed the pipe, as `head` does. Redirect stdout, because Python's flush at exit would fail
            # otherwise.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Output:
    """Stdout with a limit of records."""

    def __init__(self, show: Shown, limit: int | None) -> None:
        self._show = show
        self._left = limit

    @property
    def is_full(self) -> bool:
        """Return whether the limit is reached."""
        return self._left == 0

    @property
    def room(self) -> int:
        """Return how many records may be fetched at once."""
        return RECORDS_A_POLL if self._left is None else min(self._left, RECORDS_A_POLL)

    def write(self, records: list[ConsumerRecord]) -> None:
        """Write records and flush."""
        sys.stdout.buffer.write(b"".join([self._show(record) for record in records]))
        sys.stdout.buffer.flush()
        if self._left is not None:
            self._left -= len(records)


def _shown(
    target: Target, template: str | None, key_separator: bytes | None, delimiter: bytes, null: bytes
) -> Callable[[ConsumerRecord], bytes]:
    if target.json:
        from pybroker.cli.records.json_records import encode

        return lambda record: encode(record) + b"\n"
    if template is not None:
        try:
            return compiled(template)
        except ValueError as error:
            raise click.UsageError(f"--format: {error}") from None

    def text(record: ConsumerRecord) -> bytes:
        value = null if record.value is None else record.value
        if key_separator is None:
            return bytes(value + delimiter)
        return bytes((null if record.key is None else record.key) + key_separator + value + delimiter)

    return text


def _read(
    config: dict[str, Any],
    topic: str,
    only: tuple[int, ...],
    between: tuple[OffsetPosition, OffsetPosition | None],
    output: Output,
) -> bool:
    """Return whether the topic exists. `between` has the start and the end; an end of None means that the command does
    not stop."""
    from pybroker.client import TopicPartition
    from pybroker.client.blocking import Consumer

    with Consumer(config) as consumer:
        there = [each.partition for each in consumer.partitions_for(topic)]
        if not there:
            return False
        if missing := sorted(set(only) - set(there)):
            raise click.ClickException(
                f"Topic {topic} has {len(there)} partitions; partition {missing[0]} does not exist."
            )
        reading = [TopicPartition(topic, index) for index in sorted(only or there)]
        begins = offset_specs.offsets(consumer, reading, between[0])
        stops = None if between[1] is None else offset_specs.offsets(consumer, reading, between[1])
        if stops is not None:
            reading = [each for each in reading if begins[each] < stops[each]]
        consumer.assign(reading)
        for each in reading:
            consumer.seek(each, begins[each])
        while reading and not output.is_full:
            records = consumer.poll(POLL_S, max_records=output.room)
            if stops is None:
                output.write(records)
                continue
            output.write(
                [record for record in records if record.offset < stops[TopicPartition(topic, record.partition)]]
            )
            # Compare positions instead of counting records, because the last offsets may be control records or have no
            # record after compaction.
            ended = {each for each in reading if consumer.position(each) >= stops[each]}
            consumer.pause(*ended)
            reading = [each for each in reading if each not in ended]
    return True


def _read_as_member(config: dict[str, Any], topic: str, output: Output, *, follow: bool) -> None:
    """Read as a group member and commit written records. Without `--follow`, stop at the end of the assigned
    partitions.
    """
    from pybroker.client.blocking import Consumer

    with Consumer({**config, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        while not output.is_full:
            records = consumer.poll(POLL_S, max_records=output.room)
            output.write(records)
            if records:
                consumer.commit()
            elif not follow and _is_read(consumer):
                return


def _is_read(consumer: Consumer) -> bool:
    ours = consumer.assignment()
    if not ours or any(consumer.lag(each) != 0 for each in ours):
        return False
    # The lag comes from the last Fetch response. A new leader may report a high watermark that is too low for a moment.
    ends = consumer.end_offsets(ours)
    return all(consumer.position(each) >= end for each, end in ends.items())
