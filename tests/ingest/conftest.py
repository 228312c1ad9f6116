"""Shared by the tests of staged ingest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ingest.crashing import Crashing


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[Crashing]:
    crashing = Crashing(tmp_path)
    yield crashing
    crashing.kill()
