"""Seeds of the control plane's simulation. Each run is a process of its own, whose hash seed is fixed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.plants import PLANTS

QUICK = ("deletions-not-resumed", "epoch-not-raised", "fence-not-reopened")
"""Plants that one of the first seeds finds."""


def simulate(*args: str) -> tuple[int, str]:
    """Run seeds; return the exit code and the output."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.run", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_no_seed_fails() -> None:
    code, said = simulate("--seeds", "1-25")
    assert code == 0, said


def test_a_seed_is_repeated_exactly() -> None:
    first, again = (simulate("--seeds", "26-28", "--digests")[1].splitlines()[:3] for _ in range(2))
    assert first == again
    assert len({line.split()[-1] for line in first}) == 3


@pytest.mark.parametrize(
    "plant", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sorted(PLANTS)]
)
def test_a_planted_fault_is_found(plant: str) -> None:
    code, said = simulate("--plant", plant, "--seeds", "1-500", "--first")
    assert code == 1, said
    assert f"--trace --plant {plant}" in said


@pytest.mark.slow
def test_no_seed_of_thousands_fails() -> None:
    code, said = simulate("--seeds", "1000-4000")
    assert code == 0, said
