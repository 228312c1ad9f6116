"""The licences of everything that the product contains, and whether they are allowed.

`python -m tests.packaging.licences FILE` writes the list (Markdown). deny.toml has the allow list for crates; this
module has the one for Python packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LOCKS = ("tests/requirements.run.lock", "tests/requirements.lock")

PYTHON_ALLOWED = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense"}
    | {"Zlib"}
)
TOOLS_ALLOWED = PYTHON_ALLOWED | {"MPL-2.0", "LGPL-2.1"}
"""Licences of packages for tests and builds, which are not distributed."""

UNCHANGED = {"certifi": "MPL-2.0"}
"""Licences of extras, which users install from their authors, unmodified."""

CLASSIFIERS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "MIT License": "MIT",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1",
}
"""Licence names of packages without an SPDX expression."""
SAID_ELSEWHERE = {"DFSG approved"}


class Part(NamedTuple):
    """A crate or a package. licence: an SPDX expression, "" if none is given."""

    kind: str
    name: str
    version: str
    licence: str


def crates() -> list[Part]:
    """Return all crates in Cargo.lock that are not the project's own."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    packages: list[dict[str, Any]] = json.loads(told)["packages"]
    return [
        Part("crate", each["name"], each["version"], (each["license"] or "").replace(" / ", "/").replace("/", " OR "))
        for each in sorted(packages, key=lambda one: (one["name"], one["version"]))
        if each["source"] is not None
    ]


def locked_crates() -> set[tuple[str, str]]:
    """Return (name, version) of all crates in Cargo.lock that are not the project's own."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(each["name"], each["version"]) for each in lock["package"] if "source" in each}


def crates_allowed() -> frozenset[str]:
    """Return the licences that deny.toml allows."""
    return frozenset(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])


def locked_packages() -> set[str]:
    """Return the names of the packages that the tests' locks pin, normalised."""
    text = "".join((ROOT / each).read_text() for each in LOCKS)
    return {_normal(name) for name in re.findall(r"^([A-Za-z0-9][\w.-]*)==", text, re.MULTILINE)}


def product_packages() -> set[str]:
    """Return the names of the wheel's dependencies, with all its extras except `bench`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for name, some in extras.items() if name != "bench" for each in some)]
    found: set[str] = set()
    while wanted:
        name = _normal(re.match(r"[\w.-]+", wanted.pop())[0])  # type: ignore[index]  # a requirement begins with a name
        if name in found:
            continue
        found.add(name)
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # the package is for another system or Python version
        wanted += [each for each in needed if "extra ==" not in each]
    return found


def packages() -> list[Part]:
    """Return the installed packages of the locks."""
    locked, found = locked_packages(), {}
    for each in importlib.metadata.distributions():
        name = _normal(each.metadata["Name"])
        if name in locked:
            found[name] = Part("package", name, each.version, licence_of(each.metadata))
    return [found[name] for name in sorted(found)]


def licence_of(metadata: Any) -> str:
    """Return the SPDX expression in a package's metadata."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    told = [each.split(" :: ")[-1] for each in metadata.get_all("Classifier") or [] if each.startswith("License ::")]
    said = [CLASSIFIERS.get(each, each) for each in told if each not in SAID_ELSEWHERE and each != "OSI Approved"]
    text = (metadata.get("License") or "").strip().splitlines()
    return " OR ".join(said) if said else CLASSIFIERS.get(text[0], text[0]) if text else ""


def is_allowed(expression: str, allowed: Iterable[str]) -> bool:
    """Return whether the allowed licences satisfy this SPDX expression."""
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    ok = set(allowed)

    def alternatives() -> bool:
        value = all_of()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = all_of() or value
        return value

    def all_of() -> bool:
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one() -> bool:
        if not tokens:
            return False
        token = tokens.pop(0)
        if token == "(":
            value = alternatives()
            if not tokens or tokens.pop(0) != ")":
                return False
            return value
        while tokens and tokens[0] not in ("AND", "OR", ")"):
            token = f"{token} {tokens.pop(0)}"
        return token in ok

    return alternatives() and not tokens


def refused() -> Iterator[str]:
    """Return a line for each part whose licence is not on its list."""
    allowed, product = crates_allowed(), product_packages()
    for each in crates():
        if not is_allowed(each.licence, allowed):
            yield f"crate {each.name} {each.version}: {each.licence or 'no licence'} is not in deny.toml"
    for each in packages():
        allowed_here = PYTHON_ALLOWED if each.name in product else TOOLS_ALLOWED
        if not is_allowed(each.licence, allowed_here) and UNCHANGED.get(each.name) != each.licence:
            yield f"package {each.name} {each.version}: {each.licence or 'no licence'} is not allowed"


def listed() -> str:
    """Return the whole list as Markdown: the wheel's contents, its dependencies, and those of builds and tests."""
    product = product_packages()
    groups = (
        ("Crates (compiled into the wheel, or used to build and test it)", crates()),
        ("Python packages that pybroker needs, with its extras", [each for each in packages() if each.name in product]),
        ("Python packages that only builds and tests need", [each for each in packages() if each.name not in product]),
    )
    lines = ["# Licences", ""]
    for title, parts in groups:
        lines += [f"## {title}", "| name | version | licence |", "|---|---|---|"]
        lines += [f"| {each.name} | {each.version} | {each.licence} |" for each in parts]
        lines.append("")
    return "\n".join(lines)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if problems := list(refused()):
        sys.exit("\n".join(problems))
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(listed())
    print(f"{sys.argv[1]}: {len(crates())} crates, {len(packages())} packages, all of them allowed")
