"""docs/spark_tour.py runs unchanged, with the results that it describes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.spark.jobs import Jobs

TOUR = Path(__file__).parents[2] / "docs" / "spark_tour.py"


@pytest.mark.timeout(1200)
def test_the_tour(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the running Spark (`getOrCreate`): a load that counts once, a copy that continues at its position, and a
    re-created topic that is read as a new one."""
    monkeypatch.setenv("BOOTSTRAP", jobs.bootstrap)
    monkeypatch.setenv("FOLDER", str(tmp_path))
    left = runpy.run_path(str(TOUR))
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    assert told["loaded twice"] == "1000"
    assert told["copied"] == told["archived"] == "2000"
    assert "re-created: the checkpoint belongs to id" in told["refused"]
    assert told["copied after the re-creation"] == "3000"
    assert jobs.contents(left["COPY"], "kafka").records == 3000
