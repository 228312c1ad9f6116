"""The Markdown table: figures by column, ratios against the bars, met or MISSED."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from benches.readme import shown
from benches.spark.cases import (
    ATTACH,
    ATTACH_S_MAX,
    FLUSH_MODES,
    LIMIT,
    LIMIT_CPU,
    NEIGHBOURS,
    NEIGHBOURS_RATIO_MAX,
    Bar,
    Case,
)
from benches.spark.columns import COLUMNS, KAFKA

_NAMES = [*(column.name for column in COLUMNS), LIMIT]


class Runs:
    """Every measurement of one run."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, case: str, column: str, figures: dict[str, float]) -> None:
        """Add one measurement."""
        for figure, value in figures.items():
            self._values[case, column, figure].append(value)

    def middle(self, case: str, column: str, figure: str) -> float | None:
        """Return the median over the rounds, or None if it was not measured."""
        values = self._values.get((case, column, figure))
        return median(values) if values else None


def _word(met: bool) -> str:
    return "met" if met else "**MISSED**"


def _cell(value: float | None, base: float | None, bar: Bar | None) -> str:
    if value is None:
        return ""
    if bar is None or not base:
        return shown(value)
    return f"{shown(value)} ({shown(value / base)}×, {_word(bar.met(value / base))})"


def _line(runs: Runs, case: Case, figure: str) -> str:
    bar = case.bars.get(figure)

    def base(name: str) -> float | None:
        if bar is None or name in (KAFKA, LIMIT):
            return None
        of = (name, LIMIT_CPU) if bar.against == LIMIT else (bar.against, figure)
        return runs.middle(case.name, *of)

    cells = [_cell(runs.middle(case.name, name, figure), base(name), bar) for name in _NAMES]
    return f"| {case.name} | {figure} | {' | '.join(cells)} | {bar.text() if bar else ''} |"


def _alone_lines(runs: Runs, case: str) -> list[str]:
    """Return the lines of staged commit and neighbours, which have absolute bars and no other broker."""
    figures: tuple[str, ...] = ("alone_p99_ms", "beside_p99_ms", "again_p99_ms", "p99_ratio", "staging_mb_per_s")
    if case == ATTACH:
        figures = ("staged_gb", "staging_s", "commit_s", "attach_s")
    bars = {"attach_s": ATTACH_S_MAX}
    if not NEIGHBOURS.get(case):  # without settings that remove the limit
        bars["p99_ratio"] = NEIGHBOURS_RATIO_MAX
    lines = []
    for figure in figures:
        most = bars.get(figure)
        cells = []
        for name in _NAMES:
            value = runs.middle(case, name, figure) if name in FLUSH_MODES else None
            said = "" if value is None else shown(value)
            cells.append(said + (f" ({_word(value <= most)})" if most is not None and value is not None else ""))
        lines.append(f"| {case} | {figure} | {' | '.join(cells)} | {'' if most is None else f'≤ {most:g}'} |")
    return lines


def table(runs: Runs, cases: list[Case], alone: list[str]) -> str:
    """Return the whole table."""
    heads = ["case", "figure", *_NAMES, "bar"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in cases:
        for figure in case.figures():
            if any(runs.middle(case.name, name, figure) is not None for name in _NAMES):
                lines.append(_line(runs, case, figure))
    for name in alone:
        lines += _alone_lines(runs, name)
    return "\n".join(lines)
