"""Fixtures of the tests of ingests."""

from __future__ import annotations

import pytest

from tests.unit.control_plane import ControlPlane
from tests.unit.ingest.held import HeldIngests


@pytest.fixture
def held(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> HeldIngests:
    held = HeldIngests()
    monkeypatch.setattr(type(control_plane.native), "ingests", lambda _: held)
    return held
