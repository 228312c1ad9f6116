"""`make kip-coverage`: which test, or which reading, settles each of the 321 points; writes docs/kip-coverage.md.

Tests say it themselves, by `@pytest.mark.checklist(12, "X5", …)` on a function, a class or a module (`pytestmark`), in
Rust by a line `// checklist: 12, 13` among the attributes of a test. Whole numbers are points; names (X5, D3, R9, A24,
U2) are readings, rules and failure cases. `readings.txt` settles points without a test.

Fails on a point that nothing settles, on a number that does not exist, and with --check on a page that is not what it
would write.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "kip-coverage.md"

HEAD = (
    "# What the five documents say, and what shows it\n\n"
    "Topic ids (KIP-516), cluster ids (KIP-78) and ListTopics (KIP-142), point by point.\n"
    "Written by `make kip-coverage` from the marks of the tests: do not edit.\n"
    "X, D, R and U name readings and rules: where the documents contradict each other (X), where released Kafka\n"
    "differs (D), what was decided (R), what is offered beyond them (U); A to I are cases of failure.\n"
)


class Proof(NamedTuple):
    """A test, as `path::name`."""

    path: str
    test: str

    def __str__(self) -> str:
        return f"`{self.path}`: {self.test}"


def points() -> dict[str, dict[int, str]]:
    """The points by heading."""
    groups: dict[str, dict[int, str]] = {}
    heading = ""
    for line in (HERE / "points.txt").read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            groups[heading] = {}
        elif line and not line.startswith("#"):
            number, _, text = line.partition(" ")
            groups[heading][int(number)] = text
    return groups


def readings() -> dict[int, str]:
    """What settles points without a test."""
    found: dict[int, str] = {}
    for line in (HERE / "readings.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            numbers, _, text = line.partition(" ")
            first, _, last = numbers.partition("-")
            found |= dict.fromkeys(range(int(first), int(last or first) + 1), text)
    return found


def marks() -> dict[int | str, list[Proof]]:
    """Every mark of every test, in Python and Rust."""
    found: dict[int | str, list[Proof]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for names, test in _python_marks(ast.parse(path.read_text())):
            for name in names:
                found[name].append(Proof(path.relative_to(ROOT).as_posix(), test))
    for path in sorted((ROOT / "native").rglob("*.rs")):
        for names, test in _rust_marks(path.read_text()):
            for name in names:
                found[name].append(Proof(path.relative_to(ROOT).as_posix(), test))
    return found


def _python_marks(tree: ast.AST, outer: tuple[int | str, ...] = ()) -> Iterator[tuple[list[int | str], str]]:
    """Of a module or class: names and test."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == "pytestmark" for to in node.targets
        ):
            outer = (*outer, *_names(node.value))
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            own = (*outer, *(name for decorator in node.decorator_list for name in _names(decorator)))
            if isinstance(node, ast.ClassDef):
                yield from _python_marks(node, own)
            elif node.name.startswith("test_"):
                yield list(dict.fromkeys(own)), node.name


def _names(mark: ast.expr) -> Iterator[int | str]:
    """The arguments of each `….checklist(…)` in an expression; `*range(a, b)` too."""
    for call in ast.walk(mark):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "checklist"):
            continue
        for argument in call.args:
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Call):
                yield from range(*(ast.literal_eval(bound) for bound in argument.value.args))
            else:
                yield ast.literal_eval(argument)


def _rust_marks(text: str) -> Iterator[tuple[list[int | str], str]]:
    for match in re.finditer(
        r"^\s*// checklist: ([^\n]+)\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:async )?fn (\w+)", text, re.MULTILINE
    ):
        names = [name.strip() for name in match[1].split(",")]
        yield [int(name) if name.isdecimal() else name for name in names], match[2]


def page() -> tuple[str, list[str]]:
    """The page, and what is wrong: points that nothing settles, numbers that do not exist."""
    groups, settled, proofs = points(), readings(), marks()
    known = {number for group in groups.values() for number in group}
    problems = [f"{number} is no point" for number in sorted(settled.keys() - known)]
    problems += [
        f"{number} is no point: {proof}"
        for number in proofs
        if isinstance(number, int) and number not in known
        for proof in proofs[number]
    ]
    lines = [HEAD]
    for heading, group in groups.items():
        lines += [f"## {heading}", "", "| point | | shown or settled by |", "|---|---|---|"]
        for number, text in group.items():
            by = [*map(str, proofs.get(number, [])), *([settled[number]] if number in settled else [])]
            if not by:
                problems.append(f"{number} is settled by nothing: {text}")
            lines.append(f"| {number} | {_cell(text)} | {_cell('<br>'.join(by))} |")
        lines.append("")
    lines += ["## Readings, rules and failure cases", "", "| name | shown by |", "|---|---|"]
    named = sorted((name for name in proofs if isinstance(name, str)), key=_order)
    lines += [f"| {name} | {_cell('<br>'.join(map(str, proofs[name])))} |" for name in named]
    return "\n".join(lines) + "\n", problems


def _order(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is stale")
    arguments = parser.parse_args()
    text, problems = page()
    if not arguments.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        problems.append(f"{PAGE.relative_to(ROOT)} is stale: run make kip-coverage")
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
