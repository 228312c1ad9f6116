"""Finds which Python module imports which other one, anywhere in its text: an import inside a function, or only for
types, counts as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def imports(package: Path) -> dict[str, set[str]]:
    """Return the modules below `package` (a folder with the package's name), and the modules that each of them imports.

    A package that is imported for a name defined in its `__init__` counts as that module. Python also runs the packages
    above a module; these do not count.
    """
    root = package.parent
    files = {_module(path.relative_to(root)): path for path in package.rglob("*.py")}
    return {
        name: {target for target in _targets(path, name, set(files)) if target != name} for name, path in files.items()
    }


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(path: Path, name: str, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in known:
                    yield inner
                elif base in known:
                    yield base


def folders(graph: dict[str, set[str]]) -> Iterator[dict[str, set[str]]]:
    """Return for each package a graph of the modules and packages directly in it, without its `__init__`, which only
    exports names."""
    for package in sorted({name.rpartition(".")[0] for name in graph} - {""}):
        inside = f"{package}."
        within: dict[str, set[str]] = {}
        for name, targets in graph.items():
            for target in targets:
                if name.startswith(inside) and target.startswith(inside):
                    one, other = (inside + path[len(inside) :].split(".")[0] for path in (name, target))
                    if one != other:
                        within.setdefault(one, set()).add(other)
        yield within
