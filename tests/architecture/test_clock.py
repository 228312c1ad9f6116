"""Crates below `server` read no clock: time is an argument, or comes from the `Clock` that a thread receives."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"


@pytest.mark.parametrize("crate", ["model", "protocol", "storage", "replica", "quorum", "metadata_log", "quorum_node"])
def test_clippy_forbids_to_ask_for_the_time(crate: str) -> None:
    settings = tomllib.loads((NATIVE / crate / "clippy.toml").read_text())
    forbidden = {method["path"] for method in settings["disallowed-methods"]}
    clocks = ("std::time::Instant", "std::time::SystemTime")
    assert forbidden == {f"{clock}::{ask}" for clock in clocks for ask in ("now", "elapsed")}
    allowed = [
        path.relative_to(NATIVE).as_posix()
        for path in (NATIVE / crate / "src").rglob("*.rs")
        if "clippy::disallowed_methods" in path.read_text()
    ]
    assert set(allowed) <= {f"{crate}/src/lib.rs"}, "only tests may ask, which lib.rs says"
