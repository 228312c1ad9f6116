"""Fixtures of the control plane's unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.fake_native import use_fake_requests
from tests.unit.control_plane import ControlPlane


@pytest_asyncio.fixture
async def control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ControlPlane]:
    """A control plane that is not started yet; stopped at the end."""
    use_fake_requests(monkeypatch)
    plane = ControlPlane(tmp_path)
    yield plane
    await plane.stop()
    plane.native.close()
