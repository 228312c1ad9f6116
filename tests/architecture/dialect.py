"""Counts words that a stranger reads twice: `python -m tests.architecture.dialect [--files N] [--check]`.

A figure is the number of words from the list below per 1,000 words. There is a figure for comments and docstrings of
Python and of Rust, one for documents, and one for texts for people (log lines, errors, output and help of commands,
documentation of settings). `--check` fails when a figure is above its bar; the bars only go down.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.prose import ROOT, files, prose, texts_of_python

DIALECT = re.compile(
    r"\b(?:nobody|whoever|whomever|somebody|(?:is|was|are|were|be|been) told|tells? (?:nothing|whoever)"
    r"|stands? (?:for|here|there|in|with|as|on|beside|behind)|one that|ones that|those (?:that|who)"
    r"|what (?:is|was|were) (?:asked|said|told|kept|decided|there|left|meant|known|found)"
    r"|who (?:may|asks|asked|is there)"
    r"|passed over|from now on|from here on|of it that|be it|it is done|so (?:on|far)? as (?:it|they) (?:is|are) told"
    r"|all the same|in vain|goes with (?:it|them)|has no part in|knows? of it|hears? of (?:it|them)|for good)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")

TARGET = 0.3
BARS = {"python": 0.1, "rust": 0.1, "docs": 0.1, "texts": 0.0}
"""The limit of each figure. Lower it in the change that lowers the figure, until all are at TARGET."""


def passages() -> Iterator[tuple[str, str, str]]:
    """Yield (figure, file, text) of every counted text: those of the product and its documents, without tests."""
    for name in files():
        kind = Path(name).suffix
        if name.startswith(("pybroker/", "pyspark_pybroker/")) and (kind == ".py" or name.endswith("_native.pyi")):
            source = (ROOT / name).read_text()
            for _, text in prose(name, source):
                yield "python", name, text
            for text in texts_of_python(ast.parse(source)):
                yield "texts", name, text
        elif name.startswith("native/") and kind == ".rs" and "/tests" not in name:
            for _, text in prose(name, (ROOT / name).read_text()):
                if text.startswith("/"):
                    yield "rust", name, text
        elif kind == ".md" and name != "docs/kip-coverage.md":
            yield "docs", name, (ROOT / name).read_text()


def measure() -> tuple[dict[str, float], Counter[str], Counter[str]]:
    """Return the figures, how often each word occurs, and how many words each file has."""
    words: dict[str, int] = defaultdict(int)
    found: dict[str, int] = defaultdict(int)
    by_word: Counter[str] = Counter()
    by_file: Counter[str] = Counter()
    for figure, name, text in passages():
        words[figure] += len(WORD.findall(text))
        hits = [match.lower() for match in DIALECT.findall(text)]
        found[figure] += len(hits)
        by_word.update(hits)
        by_file[name] += len(hits)
    return {figure: 1000 * found[figure] / max(words[figure], 1) for figure in BARS}, by_word, by_file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=0, help="list that many files with most such words")
    parser.add_argument("--check", action="store_true", help="fail if a figure is above its bar")
    given = parser.parse_args()
    figures, by_word, by_file = measure()
    for figure, rate in figures.items():
        print(f"{figure:8}{rate:6.2f} per 1,000 words (bar {BARS[figure]:.2f}, target {TARGET})")
    if given.files:
        print(", ".join(f"{word} {count}" for word, count in by_word.most_common(30)))
        for name, count in by_file.most_common(given.files):
            print(f"{count:5} {name}")
    above = [figure for figure, rate in figures.items() if rate > BARS[figure] + 0.005]
    if given.check and above:
        where = ", ".join(above)
        print(f"More dialect words than before in: {where}. docs/glossary.md has the terms.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
