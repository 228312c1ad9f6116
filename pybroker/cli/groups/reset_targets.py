"""Targets of `reset-offsets`: Kafka's options, and the file that `--export` writes."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pybroker.cli import time_formats

if TYPE_CHECKING:
    from pybroker.client import TopicPartition


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """The target to which an offset is reset. `number`: an offset, milliseconds since 1970, or a difference."""

    kind: Literal["earliest", "latest", "current", "offset", "shift", "time"]
    number: int = 0


def reset_target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, exactly one of which must be given; the function gets it as `reset_target`, a Path for
    `--from-file`.
    """

    @click.option("--to-earliest", is_flag=True, help="Move to the first existing record.")
    @click.option("--to-latest", is_flag=True, help="Move to the end, after the last record.")
    @click.option("--to-current", is_flag=True, help="Keep the positions, limited to existing records.")
    @click.option("--to-offset", type=click.IntRange(min=0), help="Move to this offset.")
    @click.option("--shift-by", type=int, metavar="N", help="Move forward by N records, or back with -N.")
    @click.option(
        "--to-timestamp",
        type=click.IntRange(0, time_formats.MS_MAX),
        metavar="MS",
        help="Move to the first record at or after this time (ms since 1970).",
    )
    @click.option(
        "--to-datetime", metavar="TIME", help="Like --to-timestamp: 2026-11-05T10:00:00.000, UTC unless it has a zone."
    )
    @click.option("--by-duration", metavar="PnDTnHnMnS", help="Move to the first record within this time before now.")
    @click.option(
        "--from-file",
        type=click.Path(path_type=Path),
        help="Read the positions from a CSV file: topic,partition,offset.",
    )
    @functools.wraps(command)
    def with_target(
        *args: object,
        to_earliest: bool,
        to_latest: bool,
        to_current: bool,
        to_offset: int | None,
        shift_by: int | None,
        to_timestamp: int | None,
        to_datetime: str | None,
        by_duration: str | None,
        from_file: Path | None,
        **rest: object,
    ) -> None:
        targets: list[ResetTarget | Path] = [
            *([ResetTarget("earliest")] if to_earliest else []),
            *([ResetTarget("latest")] if to_latest else []),
            *([ResetTarget("current")] if to_current else []),
            *([ResetTarget("offset", to_offset)] if to_offset is not None else []),
            *([ResetTarget("shift", shift_by)] if shift_by is not None else []),
            *([ResetTarget("time", to_timestamp)] if to_timestamp is not None else []),
            *([ResetTarget("time", _milliseconds(to_datetime))] if to_datetime is not None else []),
            *([ResetTarget("time", _duration(by_duration))] if by_duration is not None else []),
            *([from_file] if from_file is not None else []),
        ]
        if len(targets) != 1:
            raise click.UsageError(
                "Use exactly one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
                "--to-timestamp, --to-datetime, --by-duration and --from-file."
            )
        command(*args, reset_target=targets[0], **rest)

    return with_target


def _milliseconds(text: str) -> int:
    try:
        found = time_formats.moment(text)
    except ValueError as problem:
        raise click.UsageError(f"--to-datetime {problem}.") from None
    if found is None:
        raise click.UsageError(f"--to-datetime {text}: expected a time such as 2026-11-05T10:00:00.000.")
    return found


def _duration(text: str) -> int:
    found = time_formats.duration_ago(text)
    if found is None:
        raise click.UsageError(f"--by-duration {text}: expected a duration such as P1DT2H30M or PT90S.")
    return found


def csv_line(partition: TopicPartition, offset: int) -> str:
    """Return a line of `--export` in the format of Kafka's tool."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([partition.topic, partition.partition, offset])
    return line.getvalue()


def read_plan(path: Path) -> dict[TopicPartition, int]:
    """Read a file of `--export`. Raises click.ClickException, which names the line."""
    from pybroker.client import TopicPartition

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from None
    plan: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row:
            continue
        if len(row) != 3 or not (row[1].isdecimal() and row[2].isdecimal()):
            raise click.ClickException(f"{path}, line {number}: expected topic,partition,offset.")
        plan[TopicPartition(row[0], int(row[1]))] = int(row[2])
    if not plan:
        raise click.ClickException(f"{path} is empty; expected lines of topic,partition,offset.")
    return plan
