"""Sends the records of `pybroker produce`, and notes the outcome of each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.options import described, refusals
from pybroker.cli.output import say, write_json

if TYPE_CHECKING:
    from pybroker.client import RecordMetadata
    from pybroker.client.blocking import Producer
    from pybroker.client.producer.delivery import OnDelivery

Fields = dict[str, Any]
"""Arguments of `Producer.enqueue`."""
Row = tuple[str, Fields]
"""(place in the input, for messages; the record)."""


class SendOutcome:
    """The outcomes of one run. Callbacks run on the clients' thread, one at a time.

    rows: number of acknowledged records. refused: number of failed records. first_refused: number, place and error of
    the earliest failed record. problem: the reason if reading the input ended early. read: the place of the last record
    that the producer got; empty before the first record, None if the input was read to its end.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.refused = 0
        self.first_refused: tuple[int, str, Exception] | None = None
        self.problem: str | None = None
        self.read: str | None = ""
        self.last: dict[int, RecordMetadata] = {}

    def outcome_of(self, number: int, place: str) -> OnDelivery:
        """Return the callback of one record."""

        def settle(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is None:
                assert error is not None, "a delivery has a result or an error"
                self.refuse(number, place, error)
            else:
                self.rows += 1
                self.last[metadata.partition] = metadata

        return settle

    def refuse(self, number: int, place: str, error: Exception) -> None:
        """Record a failure."""
        self.refused += 1
        if self.first_refused is None or number < self.first_refused[0]:
            self.first_refused = number, place, error

    def failure(self, topic: str) -> str | None:
        """Return the error message if a record was not written, else None."""
        reasons = []
        if self.first_refused is not None:
            _, place, error = self.first_refused
            reasons.append(f"{place} was not written: {described(error)}")
        if self.problem is not None:
            reasons.append(self.problem)
        if not reasons:
            return None
        rest = f"; {self.refused - 1} more failed as well" if self.refused > 1 else ""
        unread = f"; nothing was sent after {self.read}" if self.read else ""
        return f"{'. '.join(reasons)}. Wrote {count_of(self.rows)} to {topic}{rest}{unread}."


def send(topic: str, rows: Iterable[Row], config: Mapping[str, Any]) -> SendOutcome:
    """Send records until a record fails, and wait for all outcomes. Raises KafkaError or OSError only if the error
    occurs before the first record.
    """
    from pybroker.client.blocking import Producer

    written = SendOutcome()
    try:
        with Producer(config) as producer:
            producer.start()
            _enqueue(producer, topic, rows, written)
            producer.flush()
    except KeyboardInterrupt:
        written.problem = "interrupted"
    return written


def _enqueue(producer: Producer, topic: str, rows: Iterable[Row], written: SendOutcome) -> None:
    try:
        for number, (place, row) in enumerate(rows):
            written.read = place
            try:
                producer.enqueue(topic, on_delivery=written.outcome_of(number, place), **row)
            except refusals() as error:
                written.refuse(number, place, error)
            if written.refused:
                return
    # The rest of the input cannot be read; the records before it have been written.
    except click.ClickException as problem:
        written.problem = problem.message
    else:
        written.read = None


def report(topic: str, written: SendOutcome, *, as_json: bool) -> None:
    """Print the number of written records. Raises click.ClickException if some were not written."""
    failure = written.failure(topic)
    if as_json:
        ids = {str(each.topic_id) for each in written.last.values()}
        partitions = [{"partition": index, "last": written.last[index].offset} for index in sorted(written.last)]
        result: dict[str, object] = {
            "topic": topic,
            "topic_id": ids.pop() if ids else None,
            "rows": written.rows,
            "partitions": partitions,
        }
        write_json(result if failure is None else {**result, "refused": written.refused, "error": failure})
    elif failure is None:
        say(f"Wrote {count_of(written.rows)} to {topic}.", err=True)
    if failure is not None:
        raise click.ClickException(failure)


def count_of(rows: int) -> str:
    """Return a number of records, for people."""
    return f"{rows} record{'' if rows == 1 else 's'}"
