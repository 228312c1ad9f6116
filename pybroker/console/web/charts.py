"""Charts of the live page: SVG points over a time axis, values in units for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pybroker.console.queries.measurements import Points
from pybroker.console.web.template_filters import number, size, span

WINDOWS_S = (60, 120, 300, 600)
WIDTH, HEIGHT = 240.0, 60.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A tile. now: the last value as text; a dash if it is unknown. points, area: for SVG, in a box of WIDTH × HEIGHT.
    top: upper end of the value axis. times: labels of the time axis, oldest first. note: details, or the reason why
    there is no value.
    """

    title: str
    now: str
    points: str = ""
    area: str = ""
    top: str = ""
    times: tuple[str, ...] = ()
    note: str = ""
    is_bad: bool = False


def a_second(value: float) -> str:
    """Format bytes per second."""
    return f"{size(int(value))}/s"


def per_second(unit: str) -> Callable[[float], str]:
    """Return a function that formats a count per second."""
    return lambda value: f"{number(round(value)) if value >= 100 else f'{value:.1f}'} {unit}/s"


def cores(value: float) -> str:
    """Format CPU time per second: 100 % is one core."""
    return f"{value * 100:.0f} %"


def bytes_of(value: float) -> str:
    """Format a number of bytes."""
    return size(int(value))


def records(value: float) -> str:
    """Format a number of records."""
    return f"{number(int(value))} records"


def curve(
    title: str, points: Points, words: Callable[[float], str], *, now_s: float, is_current: bool, note: str = ""
) -> Curve:
    """Return the tile of a value. Without points, the value is unknown."""
    if not points:
        return Curve(title, "–", note=note)
    age = now_s - points[0][0]
    window = next((each for each in WINDOWS_S if each >= age), WINDOWS_S[-1])
    top = max(figure for _, figure in points) or 1.0
    places = [
        (round(WIDTH * (1 - (now_s - at) / window), 1), round(HEIGHT - 2 - (HEIGHT - 4) * figure / top, 1))
        for at, figure in points
        if now_s - at <= window
    ]
    drawn = " ".join(f"{x},{y}" for x, y in places)
    area = f"{places[0][0]},{HEIGHT} {drawn} {places[-1][0]},{HEIGHT}" if places else ""
    times = (f"{span(window * 1000)} ago", f"{span(window * 500)} ago", "now")
    return Curve(title, words(points[-1][1]) if is_current else "–", drawn, area, words(top), times, note)
