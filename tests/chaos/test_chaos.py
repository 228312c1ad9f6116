"""Faults from a seed, during which producers, a group and churning topics run. Every acknowledged record stays, once
and in order, on every replica, in the incarnation to which it was written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pybroker.testing.cluster import Store
from tests.chaos.run import Verdict, run

SEED = 20_261_129
SHORT_S = 60.0
LONG_S = 3_600.0
ROUND_S = 240.0


def good(verdict: Verdict) -> None:
    print(verdict)
    assert not verdict.anomalies, str(verdict)


ON_ZOOKEEPER = pytest.param("zookeeper", marks=pytest.mark.slow)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["quorum", ON_ZOOKEEPER])
def test_a_short_run(tmp_path: Path, store: Store, seed: int | None, seconds: float | None) -> None:
    good(run(tmp_path, SEED if seed is None else seed, seconds or SHORT_S, store=store))


@pytest.mark.slow
@pytest.mark.timeout(3 * LONG_S)
@pytest.mark.parametrize(("store", "brokers"), [("quorum", 3), ("quorum", 5), ("zookeeper", 3)])
def test_a_long_run(tmp_path: Path, store: Store, brokers: int, seed: int | None, seconds: float | None) -> None:
    """Several clusters one after another, each with a seed drawn from the first one."""
    seeds = random.Random(SEED if seed is None else seed)
    left = seconds or LONG_S
    while left > 0:
        this = seeds.randrange(1 << 32)
        good(run(tmp_path / str(this), this, min(left, ROUND_S), store=store, brokers=brokers))
        left -= ROUND_S
