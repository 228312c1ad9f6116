"""Names of types and modules: nouns, and each name for one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "pybroker"
NATIVE = ROOT.parent / "native"

PARTICIPLE = re.compile(
    "(?!Feed|Seed|Speed|Need)(Un)?[A-Z]?[a-z]*ed|(Un)?(?i:Bound|Built|Cut|Done|Drawn|Found|Given|Gone|Heard|Held|Kept|Known|"
    "Led|Left|Lost|Made|Meant|Owed|Read|Said|Seen|Sent|Shown|Taken|Told|Woken|Written)"
)
"""A type whose name is a single participle: the name says what happened to the thing, not what the thing is."""
RUST_TYPE = re.compile(r"^\s*(?:pub(?:\(.*?\))? )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)

NAMESAKES_MAX = 30
"""Number of public classes with a namesake in another module; the bar only goes down. The remaining ones are the two
forms of each client (asyncio and blocking), and things that both client and broker have."""

BASENAMES_SHARED_MAX = 48
"""Number of modules with a namesake in another folder; the bar only goes down."""
SHORT_LINES = 40
SHORT_MODULES_MAX = 34
"""Number of modules with fewer than `SHORT_LINES` lines, which would be easier to read as part of another module; the
bar only goes down."""

LOOPS_OVER_ONE_MAX = 5
"""Number of loops whose variable is called `one` instead of by its meaning; the bar only goes down."""


def named_modules() -> list[Path]:
    """Return all modules except packages themselves and files of API keys, of which there is one for each key."""
    return [path for path in ROOT.rglob("*.py") if path.stem != "__init__" and not re.match(r"k\d+_", path.stem)]


def public_classes() -> Counter[str]:
    trees = (ast.parse(path.read_text()) for path in ROOT.rglob("*.py"))
    return Counter(
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def classes() -> set[str]:
    """Return the names of all classes, without the underscore of private ones."""
    trees = (ast.parse(path.read_text()) for path in ROOT.rglob("*.py"))
    return {node.name.lstrip("_") for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def rust_types() -> set[str]:
    return {name for path in NATIVE.rglob("*.rs") for name in RUST_TYPE.findall(path.read_text())}


def test_no_type_is_named_by_a_participle() -> None:
    assert sorted(name for name in classes() | rust_types() if PARTICIPLE.fullmatch(name)) == []


@pytest.mark.parametrize("name", ["Kept", "Unsent", "Opened", "Read", "Cut"])
def test_participles_are_recognized(name: str) -> None:
    assert PARTICIPLE.fullmatch(name)
    assert RUST_TYPE.findall(f"    pub(crate) struct {name}<'a> {{") == [name]


@pytest.mark.parametrize("name", ["Feed", "Speed", "ReadBound", "Segment", "UnsentReplies"])
def test_nouns_are_no_participles(name: str) -> None:
    assert PARTICIPLE.fullmatch(name) is None


def test_few_types_have_a_namesake() -> None:
    assert sum(count > 1 for count in public_classes().values()) <= NAMESAKES_MAX


def test_few_modules_have_a_namesake() -> None:
    count = Counter(path.stem for path in named_modules())
    assert sum(number for number in count.values() if number > 1) <= BASENAMES_SHARED_MAX


def test_few_modules_are_short() -> None:
    short = [path for path in named_modules() if len(path.read_text().splitlines()) < SHORT_LINES]
    assert len(short) <= SHORT_MODULES_MAX


def test_loop_variables_are_named_by_what_they_are() -> None:
    loops = [
        f"{path}:{node.target.lineno}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
        if any(isinstance(name, ast.Name) and name.id == "one" for name in ast.walk(node.target))
    ]
    assert len(loops) <= LOOPS_OVER_ONE_MAX, loops
