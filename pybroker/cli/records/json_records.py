"""A record as a line of JSON, which `consume --json` writes and `produce --json` reads.

Bytes that are valid UTF-8 become text; other bytes become `{"base64": "…"}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.client import ConsumerRecord
    from pybroker.client.producer_records import HeaderList

BASE64 = "base64"


def encode(record: ConsumerRecord) -> bytes:
    """Return the record's line, without a line end."""
    fields = {
        "topic": record.topic,
        "topic_id": str(record.topic_id),
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _json_value(record.key),
        "value": _json_value(record.value),
        "headers": [[name, _json_value(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode()


def _json_value(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(data).decode()}


def decode(line: bytes) -> dict[str, Any]:
    """Parse a line and return `key`, `value`, `headers`, `partition` and `timestamp_ms` for `Producer.enqueue`; missing
    fields are None. A value that is a number, list or object becomes JSON text. Other names are ignored.

    Raises ValueError with the reason.
    """
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")
    return {
        "key": _bytes_of(found, "key"),
        "value": _bytes_of(found, "value"),
        "headers": _headers(found.get("headers")),
        "partition": _whole(found, "partition"),
        "timestamp_ms": _whole(found, "timestamp_ms"),
    }


def _bytes_of(found: Mapping[str, Any], name: str) -> bytes | None:
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {BASE64}:
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (TypeError, ValueError):
            raise ValueError(f"has an invalid {name}: not base64") from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"has an invalid {name}: not a whole number")


def _headers(headers: Any) -> HeaderList:
    """Return headers from pairs, or from an object with distinct names."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    try:
        return tuple((str(name), _bytes_of({"header": value}, "header")) for name, value in pairs)
    except (TypeError, ValueError):
        raise ValueError("has invalid headers: expected [name, value] pairs or an object") from None
