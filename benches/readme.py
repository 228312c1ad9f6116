"""Tables in benches/README.md, which the benches replace between two marker lines."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

README = Path(__file__).with_name("README.md")


def shown(value: float) -> str:
    """Format a value with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(title: str, first: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Return a Markdown table under its title; `first` is the head of the row names."""
    lines = [f"**{title}**", "", f"| {first} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--readme`, for `publish`."""
    parser.add_argument("--readme", action="store_true", help="also write the tables to benches/README.md")


def publish(section: str, tables: Sequence[str], *, into_readme: bool) -> None:
    """Print the tables; with `into_readme`, replace those of the section. Raises ValueError if the README has no such
    section."""
    text = "\n\n".join(tables)
    print(text)
    if not into_readme:
        return
    begin, end = f"<!-- tables of {section} -->\n", "<!-- end -->\n"
    before, found, rest = README.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{README} has no section {section}")
    README.write_text(f"{before}{begin}{text}\n{end}{after}")
