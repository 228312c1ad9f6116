"""Trouble from a seed, under producers, a group and topics that come and go: whatever was acknowledged stays, once, in
order, on every replica, in the incarnation that it was written to.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.run import Verdict, run

SEED = 20_261_129
SHORT_S = 60.0
LONG_S = 3_600.0
ROUND_S = 240.0


def good(verdict: Verdict) -> None:
    print(verdict)
    assert not verdict.anomalies, str(verdict)


@pytest.mark.timeout(600)
def test_a_short_run(tmp_path: Path, seed: int | None, seconds: float | None) -> None:
    good(run(tmp_path, SEED if seed is None else seed, seconds or SHORT_S))


@pytest.mark.slow
@pytest.mark.timeout(3 * LONG_S)
def test_a_long_run(tmp_path: Path, seed: int | None, seconds: float | None) -> None:
    """Several clusters one after another, each with a seed drawn from the first one."""
    seeds = random.Random(SEED if seed is None else seed)
    left = seconds or LONG_S
    while left > 0:
        this = seeds.randrange(1 << 32)
        good(run(tmp_path / str(this), this, min(left, ROUND_S)))
        left -= ROUND_S
