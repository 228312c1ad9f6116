"""Parses the text of this broker's /metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")

ITEMS = 64
"""Items per slice: processing one slice takes about a millisecond."""
PAUSE_S = 0.0002


def in_slices(items: Iterable[T]) -> Iterator[T]:
    """Yield the items; after each `ITEMS` of them, pause so that other threads can run."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS == 0:
            time.sleep(PAUSE_S)


CHUNK_CHARACTERS = 64 * 1024
"""Size of the parts of the text that are split into lines in one call."""

_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One line. `suffix` follows the family's name, such as `_sum`."""

    suffix: str
    labels: dict[str, str]
    value: float


class Family(NamedTuple):
    """The samples of one metric. `kind`: counter, gauge, histogram or summary."""

    name: str
    kind: str
    help: str
    samples: list[Sample]


def families(text: str) -> Iterator[Family]:
    """Yield the families in order. Skip lines that this parser does not know."""
    helps: dict[str, str] = {}
    family = Family("", "", "", [])
    for line in in_slices(_lines(text)):
        if line.startswith("# HELP "):
            name, _, told = line[7:].partition(" ")
            helps[name] = told
        elif line.startswith("# TYPE "):
            if family.samples:
                yield family
            name, _, kind = line[7:].partition(" ")
            family = Family(name, kind, helps.get(name, ""), [])
        elif match := _LINE.match(line):
            name, labels, value = match.groups()
            if family.name and name.startswith(family.name):
                found = {key: _ESCAPED.sub(_unescaped, text) for key, text in _LABEL.findall(labels or "")}
                family.samples.append(Sample(name[len(family.name) :], found, float(value)))
    if family.samples:
        yield family


def _lines(text: str) -> Iterator[str]:
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + CHUNK_CHARACTERS) + 1 or len(text)
        yield from text[begin:end].splitlines()
        begin = end


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
