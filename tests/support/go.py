"""Go programs of this repository, built once for each state of their sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pybroker.testing.download_cache import built_once, run_download


def built(module: Path) -> Path:
    """Return the built program of the module in the folder `module`; go.mod and go.sum pin its dependencies."""
    sources = sorted([*module.rglob("*.go"), module / "go.mod", module / "go.sum"])

    def build(folder: Path) -> None:
        run_download(["go", "build", "-trimpath", "-o", str(folder / "program"), "."], cwd=module)

    return built_once(f"go-{module.name}", [source.read_bytes() for source in sources], build) / "program"


def built_with(module: Path, lock: Path, tags: str = "", renamed: Mapping[str, str] | None = None) -> Path:
    """Return the same program with other dependencies: those of `lock`, a path to which `.mod` and `.sum` are added.

    tags: Go's build tags. renamed: import path in the sources → import path in these dependencies.
    """
    sources = {str(source.relative_to(module)): source.read_text() for source in sorted(module.rglob("*.go"))}
    for old, new in (renamed or {}).items():
        sources = {name: text.replace(f'"{old}"', f'"{new}"') for name, text in sources.items()}
    for ending in ("mod", "sum"):
        sources[f"go.{ending}"] = lock.with_name(f"{lock.name}.{ending}").read_text()

    def build(folder: Path) -> None:
        for name, text in sources.items():
            path = folder / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = ["go", "build", "-trimpath", f"-tags={tags}", "-o", str(folder / "program"), "."]
        run_download(command, cwd=folder / "source")

    return built_once(f"go-{lock.name}", [tags, *sources.values()], build) / "program"
