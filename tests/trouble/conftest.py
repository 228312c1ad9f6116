"""Fixtures of disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.disks import LoopDisk, can_mount

MakeDisk = Callable[[int], LoopDisk]


@pytest.fixture
def make_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeDisk]:
    """Return a function that creates mounted disks of this many MiB. They are removed with the test, after its
    brokers."""
    disks: list[LoopDisk] = []

    def make(mib: int) -> LoopDisk:
        disks.append(LoopDisk(tmp_path / f"disk-{len(disks)}", mib))
        return disks[-1]

    yield make
    for disk in disks:
        disk.close()


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> LoopDisk | None:
    """A disk of 1 GiB that can lose its power; None for a user who may not mount."""
    if not can_mount():
        return None
    make: MakeDisk = request.getfixturevalue("make_disk")
    return make(1024)
