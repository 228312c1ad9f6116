"""Names of types: nouns, and one type for one name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "pybroker"

PARTICIPLE = re.compile(
    "(?!Feed)[A-Z][a-z]*ed|Told|Kept|Given|Meant|Found|Led|Seen|Said|Taken|Written|Shown|Known|Left|Held|Gone"
)
NAMESAKES_MAX = 30
"""Public classes with a namesake in another module; the bar only goes down. What is left are the two forms of each
client (asyncio and blocking), and things that client and broker each have."""


def public_classes() -> Counter[str]:
    trees = (ast.parse(path.read_text()) for path in ROOT.rglob("*.py"))
    return Counter(
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_no_type_is_named_by_a_participle() -> None:
    assert [name for name in public_classes() if PARTICIPLE.fullmatch(name)] == []


def test_few_types_have_a_namesake() -> None:
    assert sum(count > 1 for count in public_classes().values()) <= NAMESAKES_MAX
