"""The figures of `benches/native` can be taken: each case runs, briefly, and the tables hold all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.checklist(328, 332)
def test_ids_against_names() -> None:
    command = [sys.executable, "-m", "benches.native", "--seconds", "0", "--topics-max", "1000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1:] for line in done.stdout.splitlines()}
    for case in (
        "compare 10,000 pairs that are equal",
        "which of 10,000 pairs comes first",
        "sort 10,000",
        "copy 10,000 and let them go",
        "Python: compare lists of 10,000 equal keys",
        "Python: bytes of a key",
    ):
        assert len(rows[case]) == 7, "an id, three names, three ratios"
        assert all(cell.strip(" |") for cell in rows[case])
    assert float(rows["Python: bytes of a key"][0]) < float(rows["Python: bytes of a key"][1])
    for case in ("find 1,000 partitions of", "decode Fetch requests", "encode Produce responses"):
        assert all(rows[case][:3])


def test_the_others() -> None:
    command = [sys.executable, "-m", "pytest", "benches/native/test_record_batches.py", "-q", "--benchmark-disable"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout
