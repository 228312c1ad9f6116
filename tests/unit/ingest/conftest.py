"""Fixtures of the tests of ingests."""

from __future__ import annotations

import pytest

from tests.unit.control_plane import ControlPlane
from tests.unit.ingest.held import HeldIngests


@pytest.fixture
def held(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> HeldIngests:
    held = HeldIngests()
    # Each start creates its own native core.
    monkeypatch.setattr("tests.support.fake_native.FakeIngests", lambda: held)
    return held
