"""Times on command lines, in milliseconds since 1970, and durations in output. Times without a zone are UTC on every
machine, as in Apache Kafka's tools, so that a command line has the same meaning on every machine."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pybroker.wall_clock import wall_ms

MS_MAX = 2**63 - 1
"""Limit of the field in a request."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"-([0-9]{1,15})([smhd])")
_DURATION = re.compile(
    r"P(?:(?P<d>[0-9]{1,9})D)?"
    r"(?:T(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?(?:(?P<s>[0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)


def number(text: str) -> int | None:
    """Parse milliseconds since 1970; return None if the text is no number.

    Raises ValueError if the number is too large for a record.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    if len(text) > len(str(MS_MAX)) or int(text) > MS_MAX:
        raise ValueError(f"{text}: time out of range; the latest is {MS_MAX} ms after 1970")
    return int(text)


def moment(text: str) -> int | None:
    """Parse an ISO 8601 date or time; return None for other texts.

    Raises ValueError if the time is too early for a record.
    """
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    when = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    found = (when - _1970) // timedelta(milliseconds=1)
    if found < 0:
        # In ListOffsets, -1 and -2 mean the end and the start of a partition.
        raise ValueError(f"{text}: time out of range; records have no times before 1970")
    return found


def ago(text: str) -> int | None:
    """Parse `-90s`, `-15m`, `-2h` or `-7d` and return the time that long ago; None for other texts."""
    match = _SPAN.fullmatch(text)
    return None if match is None else _before(int(match[1]) * _UNITS_MS[match[2]])


def duration_ago(text: str) -> int | None:
    """Parse an ISO 8601 duration, such as `P1DT2H30M` or `PT90S`, and return the time that long ago; None for other
    texts."""
    match = _DURATION.fullmatch(text)
    parts = {unit: amount for unit, amount in (match.groupdict() if match else {}).items() if amount}
    return _before(sum(int(float(amount) * _UNITS_MS[unit]) for unit, amount in parts.items())) if parts else None


def span(ms: int) -> str:
    """Return a duration in whole seconds: 4 h, 1 d 2 min 3 s, 0 s."""
    left, found = ms // 1_000, []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, seconds)
        if amount:
            found.append(f"{amount} {unit}")
    return " ".join(found) or "0 s"


def text(ms: int) -> str:
    """Return a time for people, in UTC; "" for a negative time, which means no time."""
    return "" if ms < 0 else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def parsed_span(text: str) -> int | None:
    """Parse `90s`, `15m`, `2h` or `7d` into milliseconds; return None for other texts."""
    match = _SPAN.fullmatch(f"-{text}")
    return None if match is None else int(match[1]) * _UNITS_MS[match[2]]


def _before(span_ms: int) -> int:
    """Return the time that many milliseconds ago, but not before 1970."""
    return max(0, wall_ms() - span_ms)
