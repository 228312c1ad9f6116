"""`make cluster` works as its description says: a leader dies during a Spark job, a topic is re-created while one
broker is down, and every record exists once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.testing.cluster import Store

LIMIT_S = 900
LINES = 4000
"""Rows per file: more than the number after which a task stops and a leader is killed."""


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
def test_the_main_job_on_a_cluster(store: Store, tmp_path: Path) -> None:
    for number in range(3):
        lines = (f"file {number} line {line}" for line in range(LINES))
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    command = [sys.executable, "-m", "examples.roundtrip.cluster", "--store", store, "--input", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "was killed during the load" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.lstrip().startswith("text-")]
    told = {row[0]: row[-1] for row in rows if row[0] in ("text-cluster", "text-recreated")}
    assert told == {"text-cluster": "yes", "text-recreated": "yes"}
