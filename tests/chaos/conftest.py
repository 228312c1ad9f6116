"""Options of a run on the command line."""

from __future__ import annotations

import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int | None:
    """`--chaos-seed`; None where the test has one of its own."""
    found: int | None = request.config.getoption("--chaos-seed")
    return found


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float | None:
    """`--chaos-seconds`; None where the test has a length of its own."""
    found: float | None = request.config.getoption("--chaos-seconds")
    return found
