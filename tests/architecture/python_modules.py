"""Which Python module imports which other, wherever in its text: an import inside a function or for types only is
knowledge of the other as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def imports(package: Path) -> dict[str, set[str]]:
    """Modules below `package` (a folder with the package's name), and which of them each one imports.

    A package that is imported for a name defined in its `__init__` counts as that module; that Python runs the
    packages above a module does not.
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
    """For each package a graph of what lies directly in it, modules and packages. Its `__init__` is left out: it only
    shows what is inside."""
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
