"""Checks which crate of the native core uses which other one, and which crates use certain libraries: the arrows of
native/README.md. Cargo refuses circles, but it does not detect new arrows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
CRATES = {path.parent.name: tomllib.loads(path.read_text()) for path in NATIVE.glob("*/Cargo.toml")}
OURS = "pybroker-"

USES = {
    "model": set(),
    "protocol": {"model"},
    "storage": {"model"},
    "replica": {"model", "storage"},
    "server": {"model", "protocol", "storage", "replica"},
    "keystore": set(),
    "client": {"keystore", "model", "protocol"},
    "fetcher": {"model", "protocol", "storage", "replica", "client"},
    "spark": {"model", "protocol", "client"},
    "fuzz": {"keystore", "model", "protocol", "storage"},
    "quorum": {"model"},
    "metadata_log": {"model", "protocol", "quorum"},
    "quorum_node": {"metadata_log", "model", "protocol", "quorum"},
    "simulator": {"metadata_log", "model", "quorum", "replica", "storage"},
    "bindings": set(CRATES) - {"bindings", "fuzz", "simulator"},
}
HAVE = {
    "pyo3": {"bindings"},
    "tokio": {"server"},
    "socket2": {"server"},
    "rustls": {"client", "server"},
    "arrow-array": {"spark", "bindings"},
}
"""Libraries (for Python, tasks, listening, TLS, columns) and the crates that use them."""


@pytest.mark.parametrize("name", sorted(CRATES))
def test_a_crate_uses_no_other_than_these(name: str) -> None:
    ours = (each.removeprefix(OURS) for each in CRATES[name]["dependencies"] if each.startswith(OURS))
    used = {each.replace("-", "_") for each in ours}
    assert used == USES[name]


@pytest.mark.parametrize("library", sorted(HAVE))
def test_what_a_library_brings_is_in_these_crates_alone(library: str) -> None:
    assert {name for name, crate in CRATES.items() if library in crate["dependencies"]} == HAVE[library]


def test_every_crate_stands_in_the_readme() -> None:
    text = (NATIVE / "README.md").read_text()
    assert [name for name in CRATES if f"| `{name}` |" not in text] == []
