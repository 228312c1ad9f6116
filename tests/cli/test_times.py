"""Forms of times on command lines."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pybroker.cli import time_formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21", 1_795_219_200_000),
        ("2026-11-21T00:00", 1_795_219_200_000),
        ("2026-11-21T00:00:00Z", 1_795_219_200_000),
        ("2026-11-21T01:00:00+01:00", 1_795_219_200_000),
        ("20261121T000000.5", 1_795_219_200_500),
        ("2026-11-21 00:00:00.0019", 1_795_219_200_001),
        ("1970-01-01", 0),
        ("noon", None),
        ("", None),
    ],
)
def test_a_moment_is_utc_unless_it_has_a_zone(far_east: None, text: str, expected: int | None) -> None:
    assert time_formats.moment(text) == expected


@pytest.mark.parametrize(
    ("read", "text", "back_ms"),
    [
        (time_formats.ago, "-90s", 90_000),
        (time_formats.ago, "-15m", 900_000),
        (time_formats.ago, "-2h", 7_200_000),
        (time_formats.ago, "-7d", 604_800_000),
        (time_formats.duration_ago, "PT90S", 90_000),
        (time_formats.duration_ago, "PT0.5S", 500),
        (time_formats.duration_ago, "P1DT2H30M", 95_400_000),
    ],
)
def test_a_span_is_counted_back_from_now(read: Callable[[str], int | None], text: str, back_ms: int) -> None:
    before = time.time_ns() // 1_000_000
    found = read(text)
    assert found is not None
    assert before <= found + back_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("ms", "told"),
    [(0, "0 s"), (999, "0 s"), (59_999, "59 s"), (14_400_000, "4 h"), (86_523_000, "1 d 2 min 3 s")],
)
def test_a_span_is_written_in_the_units_that_it_has(ms: int, told: str) -> None:
    assert time_formats.span(ms) == told


def test_nothing_is_older_than_1970() -> None:
    assert time_formats.ago("-999999999999999d") == 0
    assert time_formats.duration_ago("P999999999D") == 0
    for text in ("1969-12-31T23:59:59.999", "1970-01-01T00:00+00:01", "0001-01-01T00:00+14:00"):
        with pytest.raises(ValueError, match="1970"):
            time_formats.moment(text)


def test_what_is_something_else_is_left_to_others() -> None:
    assert [time_formats.ago(text) for text in ("2h", "-2", "-2w", "-1h30m", "")] == [None] * 5
    assert [time_formats.duration_ago(text) for text in ("P", "PT", "1h", "P1W", "PT1H2D")] == [None] * 5
    assert [time_formats.number(text) for text in ("", "-1", "1.5", "\u00b2")] == [None] * 4


def test_a_number_fits_a_request() -> None:
    assert time_formats.number("0") == 0
    assert time_formats.number(str(time_formats.MS_MAX)) == time_formats.MS_MAX
    for text in (str(time_formats.MS_MAX + 1), "9" * 5_000):
        with pytest.raises(ValueError, match="time out of range"):
            time_formats.number(text)
