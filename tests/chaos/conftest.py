"""Options of a run on the command line."""

from __future__ import annotations

import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int | None:
    """`--chaos-seed`; None if the test uses its own seed."""
    found: int | None = request.config.getoption("--chaos-seed")
    return found


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float | None:
    """`--chaos-seconds`; None if the test uses its own duration."""
    found: float | None = request.config.getoption("--chaos-seconds")
    return found
