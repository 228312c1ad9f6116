"""Every point of the documents is settled, and the page agrees with the marks of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kip import coverage


def test_every_point_is_settled_and_the_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kip.coverage", "--check"],
        cwd=coverage.ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_332_points() -> None:
    numbers = [number for group in coverage.points().values() for number in group]
    assert numbers == list(range(1, 333))


MARKED = """
import pytest
pytestmark = pytest.mark.checklist(1)
@pytest.mark.checklist(*range(2, 4), "X5")
@pytest.mark.parametrize("a", [pytest.param(1)])
async def test_one(): ...
class TestTwo:
    @pytest.mark.checklist(7)
    def test_three(self): ...
    @pytest.mark.checklist(8)
    def helper(self): ...
"""
RUST = """
    // checklist: 9, R5
    #[test]
    // why
    fn a_test() {}
    fn another() {}
"""


def test_marks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("tests", "native", "benches"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(MARKED)
    (tmp_path / "native" / "some.rs").write_text(RUST)
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    found = {name: [proof.test for proof in proofs] for name, proofs in coverage.marks().items()}
    assert found == {
        1: ["test_one", "test_three"],
        2: ["test_one"],
        3: ["test_one"],
        "X5": ["test_one"],
        7: ["test_three"],
        9: ["a_test"],
        "R5": ["a_test"],
    }


@pytest.mark.parametrize(
    ("name", "tests", "sentence", "problem"),
    [
        (1, 1, None, None),
        (1, 0, None, "1 is settled by nothing"),
        ("X1", 0, None, "X1 is settled by nothing"),
        ("A1", 0, None, "A1 is named by no test: take its text out of readings.txt"),
        (1, 0, ("decided", "as X1 says, in version 2.8, v5 and with 1,000 topics"), None),
        (1, 0, ("decided", "the layout is that of 2"), "1: nothing but prose that names another point: 2"),
        (1, 1, ("in part", "the rest is 2"), None),
        (1, 0, ("in part", "the rest"), "1: says 'in part' and has no test"),
        (1, 0, ("layout only", "the rest"), "1: says 'layout only' and has no test"),
        (1, 1, ("open", "not begun"), "1: is said to be open and has tests: `t.py`: test_a; is it open in part?"),
        (
            1,
            0,
            ("later", "not begun"),
            "1: 'later' is none of superseded, rejected, decided, layout only, in part, open",
        ),
        (1, 0, ("decided", "as X7 says"), "1: X7 is not defined"),
    ],
)
def test_what_settles_a_point(
    name: int | str, tests: int, sentence: tuple[str, str] | None, problem: str | None
) -> None:
    proofs = [coverage.Proof("t.py", "test_a")] * tests
    said = coverage.Sentence(*sentence) if sentence else None
    found = list(coverage.problems_of(name, proofs, said, {1, 2, "X1", "A1"}))
    assert found == ([problem] if problem else [])


def test_the_page_shows_texts_and_proofs_and_what_is_not_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "points", lambda: {"A": {1: "one", 2: "two | three"}})
    monkeypatch.setattr(coverage, "readings", lambda: {"X": {"X1": "read so"}})
    monkeypatch.setattr(
        coverage,
        "sentences",
        lambda: {2: coverage.Sentence("open", "not begun"), 9: coverage.Sentence("open", "no such point")},
    )
    proof = coverage.Proof("t.py", "test_a")
    monkeypatch.setattr(coverage, "marks", lambda: {1: [proof], 8: [proof], "X1": [proof], "X2": [proof]})
    text, problems = coverage.page()
    assert problems == [
        "9 is not defined, but has a sentence",
        "8 is not defined: `t.py`: test_a",
        "X2 is not defined: `t.py`: test_a",
    ]
    assert "| 1 | one | `t.py`: test_a |" in text
    assert "| 2 | two \\| three | *open*: not begun |" in text
    assert "| X1 | read so | `t.py`: test_a |" in text
    assert "| shown | 1 |" in text
    assert "| open | 1 |" in text


def test_cases_with_several_brokers_need_a_test_that_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    heading = f"{coverage.SEVERAL_BROKERS}: some"
    monkeypatch.setattr(coverage, "points", dict)
    monkeypatch.setattr(coverage, "sentences", dict)
    monkeypatch.setattr(coverage, "readings", lambda: {heading: {"B1": "one", "FD2": "two"}})
    unit, cluster = coverage.Proof("tests/unit/t.py", "test_a"), coverage.Proof("tests/cluster/t.py", "test_b")
    monkeypatch.setattr(coverage, "marks", lambda: {"B1": [unit], "FD2": [unit, cluster]})
    assert coverage.page()[1] == ["B1: no test in tests/cluster/ or tests/chaos/ names it"]


def test_points_of_zookeepers_mode_need_a_test_that_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "ZOOKEEPER", "1-2")
    monkeypatch.setattr(coverage, "points", lambda: {"A": {1: "one", 2: "two", 3: "three"}})
    monkeypatch.setattr(coverage, "readings", dict)
    monkeypatch.setattr(coverage, "sentences", dict)
    unit, cluster = coverage.Proof("tests/unit/t.py", "test_a"), coverage.Proof("tests/cluster/t.py", "test_b")
    monkeypatch.setattr(coverage, "marks", lambda: {1: [unit], 2: [cluster], 3: [unit]})
    text, problems = coverage.page()
    assert problems == ["1: no test in tests/cluster/ or tests/chaos/ names it"]
    assert "| 2 | two | `tests/cluster/t.py`: test_b<br>*ZooKeeper's mode* |" in text
    assert "| 3 | three | `tests/unit/t.py`: test_a |" in text


def test_files_that_define_a_name_twice_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "points.txt").write_text("# why\n\n## A\n1 one\n## B\n1 two\n")
    monkeypatch.setattr(coverage, "HERE", tmp_path)
    with pytest.raises(ValueError, match=r"points\.txt defines 1 twice"):
        coverage.points()


def test_sentences_may_speak_of_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sentences.txt").write_text("# why\n1-2 open: not begun\nX3-X4 decided: so: it is\n")
    monkeypatch.setattr(coverage, "HERE", tmp_path)
    not_begun, decided = coverage.Sentence("open", "not begun"), coverage.Sentence("decided", "so: it is")
    assert coverage.sentences() == {1: not_begun, 2: not_begun, "X3": decided, "X4": decided}
