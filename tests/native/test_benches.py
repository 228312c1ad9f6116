"""The benches that compare ids with names work: each case runs briefly, and the tables have all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ran(*command: str) -> str:
    """Run a bench and return its output. pytest-benchmark does not measure in a worker of xdist; this process is not
    one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.checklist(328, 332)
def test_ids_against_names() -> None:
    tables = ran("benches.native", "--seconds", "0", "--topics-max", "1000")
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1:] for line in tables.splitlines()}
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


@pytest.mark.checklist(319, 332)
def test_one_broker_by_id_and_by_name() -> None:
    """The same broker and topics get, in turn: Fetch, Produce, Metadata and listings."""
    tables = ran("benches.identity", "--only", "one-broker", "--topics", "40", "--rounds", "2")
    shares = re.findall(r"^\| by id \(v\d+\) / by name \(v\d+\) \| ([\d.]+) \| ([\d.]+) \|", tables, re.MULTILINE)
    assert len(shares) == 3, tables
    assert all(float(request) < 1 and float(response) <= 1 for request, response in shares)
    (listing,) = re.findall(r"^\| ListTopics v0 / Metadata v12 \| [\d.]+ \| ([\d.]+) \|", tables, re.MULTILINE)
    assert float(listing) < 0.41


def test_the_others() -> None:
    ran("pytest", "benches/native/test_record_batches.py", "-q", "--benchmark-disable")
