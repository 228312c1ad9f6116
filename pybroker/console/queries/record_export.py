"""Export of records as NDJSON, like `pybroker consume --json`, or as Parquet."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from typing import Any

from pybroker.client import ConsumerRecord


class MissingPackageError(Exception):
    """An optional package is not installed; the text contains its name."""


def ndjson(records: Iterable[ConsumerRecord]) -> bytes:
    """Return one JSON object per line; bytes that are not UTF-8 become {"base64": "…"}."""
    return b"".join(json.dumps(_row(each), ensure_ascii=False).encode() + b"\n" for each in records)


def _row(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "topic_id": str(record.topic_id) if record.topic_id else None,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _value(record.key),
        "value": _value(record.value),
        "headers": [[name, _value(value)] for name, value in record.headers],
    }


def _value(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def parquet(records: Iterable[ConsumerRecord]) -> bytes:
    """Return keys and values as bytes, times as timestamps. Raises MissingPackageError."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise MissingPackageError("Parquet requires an additional package: pip install pyarrow") from None
    rows = list(records)
    header = pa.struct([("name", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "topic": pa.array([each.topic for each in rows], pa.string()),
            "topic_id": pa.array([str(each.topic_id) if each.topic_id else None for each in rows], pa.string()),
            "partition": pa.array([each.partition for each in rows], pa.int32()),
            "offset": pa.array([each.offset for each in rows], pa.int64()),
            "timestamp": pa.array([each.timestamp for each in rows], pa.timestamp("ms", "UTC")),
            "key": pa.array([each.key for each in rows], pa.binary()),
            "value": pa.array([each.value for each in rows], pa.binary()),
            "headers": pa.array(
                [[{"name": name, "value": value} for name, value in each.headers] for each in rows], pa.list_(header)
            ),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()
