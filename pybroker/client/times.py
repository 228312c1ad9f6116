"""Points in time: Kafka uses milliseconds since 1970, Python datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

Moment = int | datetime
"""Milliseconds since 1970-01-01 UTC, or a datetime with a time zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: Moment) -> int:
    """Return milliseconds since 1970. Raises ValueError for a datetime without a time zone."""
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: give it one, as datetime.now(UTC)")
    return (moment - _EPOCH) // _MILLISECOND
