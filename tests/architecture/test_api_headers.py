"""The file of each API key begins in the same form: a sentence, then Behavior, Versions, Differs from Kafka."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

API = Path(__file__).parents[2] / "pybroker" / "broker" / "api"
FILES = sorted(API.glob("k*.py"))
FIRST = r"\w+ \(key {key}(, pybroker's own)?\), (versions? \d+(–\d+)?|between (controller and broker|brokers) only)"
SECTIONS = ["Behavior", "Versions", "Differs from Kafka"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_header_has_its_parts_in_order(file: Path) -> None:
    text = ast.get_docstring(ast.parse(file.read_text()))
    assert text is not None
    key = int(file.stem.split("_")[0][1:])
    first, *parts = text.split("\n\n")
    assert re.match(FIRST.format(key=key), first), first
    names = [part.split("\n")[0] for part in parts]
    assert names == [name for name in SECTIONS if name in names]
    for part in parts:
        for line in part.split("\n")[1:]:
            assert line.startswith(("- ", "  ")), line
