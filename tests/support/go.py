"""Go programs of this repository: built once for each state of their sources."""

from __future__ import annotations

from pathlib import Path

from pybroker.testing.cache import built_once, run_download


def built(module: Path) -> Path:
    """The program of the module in the folder `module`; its dependencies are pinned by go.mod and go.sum."""
    sources = sorted([*module.rglob("*.go"), module / "go.mod", module / "go.sum"])

    def build(folder: Path) -> None:
        run_download(["go", "build", "-trimpath", "-o", str(folder / "program"), "."], cwd=module)

    return built_once(f"go-{module.name}", [source.read_bytes() for source in sources], build) / "program"
