"""Moments: Kafka's are milliseconds since 1970, Python's are datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

Moment = int | datetime
"""Milliseconds since 1970-01-01 UTC, or a datetime that knows its time zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: Moment) -> int:
    """A moment as Kafka writes it. Raises ValueError for a datetime that does not say where it is that late."""
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: give it one, as datetime.now(UTC)")
    return (moment - _EPOCH) // _MILLISECOND
