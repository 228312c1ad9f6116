"""Prints an ingest."""

from __future__ import annotations

from typing import Any, cast

from pybroker.cli.output import say, table, write_json
from pybroker.cli.target import Target

COLUMNS = ("topic", "topic_id", "ingest_id", "batch", "state", "rows", "bytes", "writers")
OFFSETS = ("partition", "first", "last", "rows", "bytes")


def row(each: Any) -> dict[str, object]:
    from pybroker.spark.ingest_steps import LoadState

    return {
        "topic": each.topic_name,
        "topic_id": str(each.topic_id),
        "ingest_id": each.ingest_id,
        "batch": None if each.batch_id < 0 else each.batch_id,
        "state": LoadState(each.state).name.lower(),
        "rows": each.rows,
        "bytes": each.bytes,
        "writers": each.writers,
    }


def details(each: Any) -> dict[str, object]:
    rows = [
        {
            "partition": part.partition,
            "first": part.base_offset if part.base_offset >= 0 else None,
            "last": part.end_offset - 1 if part.end_offset > 0 else None,
            "rows": part.rows,
            "bytes": part.bytes,
        }
        for part in sorted(each.partitions, key=lambda part: part.partition)
    ]
    return {**row(each), "partitions": rows}


def summary(each: Any, target: Target, more: dict[str, object] | None = None) -> None:
    """Print an ingest; `more` has additional fields for JSON."""
    fields = {**details(each), **(more or {})}
    if target.json:
        write_json(fields)
        return
    say(
        f"{fields['ingest_id']} into {fields['topic']} ({fields['topic_id']}): {fields['state']}, {each.rows:,} rows, "
        f"{each.bytes:,} bytes"
    )
    table(cast("list[dict[str, object]]", fields["partitions"]), OFFSETS)
