"""Every point of the documents is settled, and the page that says by what is what the tests say."""

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


def test_there_are_321_points() -> None:
    numbers = [number for group in coverage.points().values() for number in group]
    assert numbers == list(range(1, 322))


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
    (tmp_path / "tests").mkdir()
    (tmp_path / "native").mkdir()
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


def test_what_nothing_settles_and_what_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "points", lambda: {"A": {1: "one", 2: "two", 3: "three"}})
    monkeypatch.setattr(coverage, "readings", lambda: {2: "read so", 9: "no such point"})
    monkeypatch.setattr(
        coverage, "marks", lambda: {1: [coverage.Proof("t.py", "test_a")], 8: [coverage.Proof("t.py", "test_b")]}
    )
    text, problems = coverage.page()
    assert problems == ["9 is no point", "8 is no point: `t.py`: test_b", "3 is settled by nothing: three"]
    assert "| 1 | one | `t.py`: test_a |" in text
    assert "| 2 | two | read so |" in text
