"""`make kip-coverage`: which test or sentence settles each point of the five documents; writes docs/kip-coverage.md.

Tests name the points that they prove: in Python by `@pytest.mark.checklist(12, "X5", …)` on a function, a class or a
module (`pytestmark`), in Rust by a line `// checklist: 12, X5` among the attributes of a test.

| file | holds |
|---|---|
| `points.txt` | the points of the documents: numbers |
| `readings.txt` | readings (X), deviations of Kafka (D), decisions (R), additions (U), cases of failure (A to I, FD) |
| `sentences.txt` | what settles a point or a reading without a test, or limits what its tests show |

Fails on a point or a reading (X, D, R, U) that nothing settles, on a number or name that is not defined, on a case of
failure that no test names, or with several brokers none that starts them, on a point about the messages of ZooKeeper's
mode that no test with brokers on ZooKeeper names, on a sentence of an unknown kind or one that promises tests where
there are none, on a point whose only proof is prose that names another point, and with --check on a page that is not
what it would write.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "kip-coverage.md"

KINDS = {
    "superseded": "an older draft, which the accepted text replaces",
    "rejected": "the text itself rejects it, or leaves it to others",
    "decided": "done otherwise, for a reason that a reading gives",
    "layout only": "tests show the bytes, and what a broker answers; no broker of ours sends them",
    "in part": "tests show a part of it; the sentence says what is missing",
    "open": "not done",
}
WITH_TESTS = {"layout only", "in part"}
"""Kinds of sentences that say what tests do not show. They need a test beside them."""

MUST_BE_SETTLED = "XDRU"

SEVERAL_BROKERS = "Cases of failure with several brokers"
"""Beginning of the heading of cases that only brokers as processes, with a ZooKeeper, can show."""
REAL_BROKERS = ("tests/cluster/", "tests/chaos/")
"""The folders whose tests start such brokers."""

ZOOKEEPER = (
    "50-52 58 60-86 102-105 111 114 117-119 122-128 138 209-211 "
    "X5 X12-X14 X26-X27 X37-X38 D4-D5 R10 R27 R30-R31 R35"
)
"""Points and readings about LeaderAndIsr, StopReplica and UpdateMetadata. Controllers send these messages in clusters
on ZooKeeper; the embedded store hands them over as objects. So each needs a test in REAL_BROKERS."""

HEAD = (
    "# What the five documents say, and what shows it\n\n"
    "Topic ids (KIP-516: the accepted text, a change of it, an older draft), cluster ids (KIP-78) and ListTopics\n"
    "(KIP-142), point by point; then how they are read, and the cases of failure that tests show. Written by\n"
    "`make kip-coverage` from the marks of the tests and from `tests/kip`: do not edit.\n\n"
    "*ZooKeeper's mode*: about LeaderAndIsr, StopReplica and UpdateMetadata, which controllers send to brokers in\n"
    "clusters on ZooKeeper (`metadata.store=zookeeper`). The proofs in `tests/cluster` start such a cluster.\n"
)


class Proof(NamedTuple):
    """A test, as `path::name`."""

    path: str
    test: str

    def __str__(self) -> str:
        return f"`{self.path}`: {self.test}"


class Sentence(NamedTuple):
    kind: str
    """One of KINDS."""
    text: str

    def __str__(self) -> str:
        return f"*{self.kind}*: {self.text}"


Name = int | str
"""A point's number, or a reading's letter and number."""


def zookeepers() -> set[Name]:
    """Return the names in ZOOKEEPER."""
    return {name for names in ZOOKEEPER.split() for name in _range(names)}


def points() -> dict[str, dict[Name, str]]:
    """Return the points by heading."""
    return {heading: {int(name): text for name, text in group.items()} for heading, group in _groups("points.txt")}


def readings() -> dict[str, dict[Name, str]]:
    """Return readings, rules and cases by heading."""
    return {heading: {**group} for heading, group in _groups("readings.txt")}


def _groups(file: str) -> list[tuple[str, dict[str, str]]]:
    groups: list[tuple[str, dict[str, str]]] = []
    for line in (HERE / file).read_text().splitlines():
        if line.startswith("## "):
            groups.append((line.removeprefix("## "), {}))
        elif line and not line.startswith("#"):
            name, _, text = line.partition(" ")
            if any(name in group for _, group in groups):
                raise ValueError(f"{file} defines {name} twice")
            groups[-1][1][name] = text
    return groups


def sentences() -> dict[Name, Sentence]:
    """Return the sentences that settle points and readings without a test: `12 kind: text`, `12-14 kind: text` or `X5
    kind: text`."""
    found: dict[Name, Sentence] = {}
    for line in (HERE / "sentences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            names, _, rest = line.partition(" ")
            kind, _, text = rest.partition(": ")
            found |= dict.fromkeys(_range(names), Sentence(kind, text))
    return found


def _range(names: str) -> list[Name]:
    first, _, last = names.partition("-")
    letter = first.rstrip("0123456789")
    numbers = range(int(first.removeprefix(letter)), int((last or first).removeprefix(letter)) + 1)
    return [f"{letter}{number}" if letter else number for number in numbers]


def marks() -> dict[Name, list[Proof]]:
    """Return every mark of every test, in Python and Rust."""
    found: dict[Name, list[Proof]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")) + sorted((ROOT / "benches").rglob("test_*.py")):
        for names, test in _python_marks(ast.parse(path.read_text())):
            for name in names:
                found[name].append(Proof(path.relative_to(ROOT).as_posix(), test))
    for path in sorted((ROOT / "native").rglob("*.rs")):
        for names, test in _rust_marks(path.read_text()):
            for name in names:
                found[name].append(Proof(path.relative_to(ROOT).as_posix(), test))
    return found


def _python_marks(tree: ast.AST, outer: tuple[Name, ...] = ()) -> Iterator[tuple[list[Name], str]]:
    """Yield the names and the test for each mark in a module or class."""
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


def _names(mark: ast.expr) -> Iterator[Name]:
    """Yield the arguments of each `….checklist(…)` in an expression, including `*range(a, b)`."""
    for call in ast.walk(mark):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "checklist"):
            continue
        for argument in call.args:
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Call):
                yield from range(*(ast.literal_eval(bound) for bound in argument.value.args))
            else:
                yield ast.literal_eval(argument)


def _rust_marks(text: str) -> Iterator[tuple[list[Name], str]]:
    for match in re.finditer(
        r"^\s*// checklist: ([^\n]+)\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:async )?fn (\w+)", text, re.MULTILINE
    ):
        names = [name.strip() for name in match[1].split(",")]
        yield [int(name) if name.isdecimal() else name for name in names], match[2]


ROW = re.compile(r"(?<![\w.,=/-])\d{1,3}(?![\w:]|[.,]\d|-\w)")
NAME = re.compile(r"\b(?:FD|[A-IRUX])\d{1,2}\b")


def problems_of(name: Name, proofs: list[Proof], sentence: Sentence | None, known: set[Name]) -> Iterator[str]:
    """Return the faults of a point, a reading or a case."""
    if not proofs and sentence is None:
        if isinstance(name, int) or name[0] in MUST_BE_SETTLED:
            yield f"{name} is settled by nothing"
        else:
            yield f"{name} is named by no test: take its text out of readings.txt"
    if sentence is None:
        return
    if sentence.kind not in KINDS:
        yield f"{name}: {sentence.kind!r} is none of {', '.join(KINDS)}"
    if sentence.kind in WITH_TESTS and not proofs:
        yield f"{name}: says {sentence.kind!r} and has no test"
    if sentence.kind == "open" and proofs:
        yield f"{name}: is said to be open and has tests: {proofs[0]}; is it open in part?"
    yield from (f"{name}: {other} is not defined" for other in NAME.findall(sentence.text) if other not in known)
    if not proofs and (rows := [row for row in ROW.findall(sentence.text) if int(row) in known]):
        yield f"{name}: nothing but prose that names another point: {', '.join(rows)}"


def page() -> tuple[str, list[str]]:
    """Return the page and its faults."""
    groups, said, proofs, zookeeper = points() | readings(), sentences(), marks(), zookeepers()
    known = {name for group in groups.values() for name in group}
    problems = [f"{name} is not defined, but has a sentence" for name in said if name not in known]
    problems += [f"{name} is not defined: {proof}" for name in proofs if name not in known for proof in proofs[name]]
    lines: list[str] = []
    counts: Counter[str] = Counter()
    for heading, group in groups.items():
        lines += [f"## {heading}", "", "| | | shown or settled by |", "|---|---|---|"]
        for name, text in group.items():
            shown, sentence = proofs.get(name, []), said.get(name)
            problems += problems_of(name, shown, sentence, known)
            several = heading.startswith(SEVERAL_BROKERS) or name in zookeeper
            if several and not any(one.path.startswith(REAL_BROKERS) for one in shown):
                problems.append(f"{name}: no test in {' or '.join(REAL_BROKERS)} names it")
            by = [*map(str, shown), *([str(sentence)] if sentence else [])]
            by += ["*ZooKeeper's mode*"] * (name in zookeeper)
            lines.append(f"| {name} | {_cell(text)} | {_cell('<br>'.join(by))} |")
            if isinstance(name, int):
                counts[sentence.kind if sentence else "shown"] += 1
        lines.append("")
    return "\n".join([HEAD, *_summary(counts), *lines]).rstrip("\n") + "\n", problems


def _summary(counts: Counter[str]) -> list[str]:
    meanings = {"shown": "tests show it", **KINDS}
    rows = [f"| {kind} | {counts[kind]} | {meaning} |" for kind, meaning in meanings.items() if counts[kind]]
    return ["| | points | |", "|---|---|---|", *rows, ""]


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
