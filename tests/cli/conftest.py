"""Shared by the tests of the command."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set this machine's time zone to 14 hours ahead of UTC, also for commands that the test starts."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
