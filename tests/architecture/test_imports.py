"""Imports point only downward. Clients do not depend on the broker. Decisions neither wait nor have side effects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "pybroker"

# The layers from top to bottom; the packages in one line do not import each other.
LAYERS: list[set[str]] = [
    {"__main__"},
    {"cli"},
    {"broker", "console", "spark", "testing"},
    {"client"},
    {"config"},
    {"protocol", "files"},
    {"native", "native_quorum"},
    {"version", "cluster_resource", "web_request"},
    {"printable", "wall_clock"},
    {"errors", "log_topic_names"},
]
BROKER_LAYERS: list[set[str]] = [
    {"offline"},
    {"lifecycle"},
    {"api", "observability"},
    {"services"},
    {"admin", "dispatch"},
    {"replicas"},
    {"client_metrics", "controller", "coordinators", "ingest"},
    {"interbroker", "logs"},
    {"cluster", "json_lines", "quorum", "security"},
    {"clock", "gc_tuning", "log_limits", "metadata", "requests"},
]
OUTSIDE = {"__init__", "_native"}
"""The packages themselves, and the native extension."""


def ranks(layers: list[set[str]]) -> dict[str, int]:
    return {name: rank for rank, names in enumerate(layers) for name in names}


def imports(path: Path, package: str) -> Iterator[str]:
    """Return the parts of `package` that a file imports."""
    inside = f"{package}."
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(inside):
            yield node.module.removeprefix(inside).split(".")[0]
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names if alias.name.startswith(inside))
            yield from (name.removeprefix(inside).split(".")[0] for name in names)


def modules(folder: Path = ROOT) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        top = path.relative_to(folder).parts[0].removesuffix(".py")
        if top not in OUTSIDE:
            yield top, path


def upward(folder: Path, package: str, layers: list[set[str]]) -> list[str]:
    rank = ranks(layers)
    return [
        f"{path.relative_to(folder)} imports {package}.{imported}"
        for top, path in modules(folder)
        for imported in imports(path, package)
        if imported != top and imported not in OUTSIDE
        if rank[imported] <= rank[top]
    ]


def test_every_module_has_its_place() -> None:
    assert {top for top, _ in modules()} - set(ranks(LAYERS)) == set()
    assert {top for top, _ in modules(ROOT / "broker")} - set(ranks(BROKER_LAYERS)) == set()


def test_imports_point_downward() -> None:
    assert upward(ROOT, "pybroker", LAYERS) == []
    assert upward(ROOT / "broker", "pybroker.broker", BROKER_LAYERS) == []


def test_only_the_command_and_its_entry_import_the_broker() -> None:
    importers = {top for top, path in modules() if "broker" in imports(path, "pybroker")}
    assert importers - {"broker"} == {"__main__", "cli"}


def test_only_the_facades_import_the_extension() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for _, path in modules()
        for imported in imports(path, "pybroker")
        if imported == "_native"
    }
    assert importers <= {"native.py", "native_quorum.py"}


def test_decisions_neither_wait_nor_do_anything() -> None:
    folder = ROOT / "broker" / "controller"
    pure = ["decision", "leader_election", "partition_states", "purge", "replica_placement"]
    pure += ["topic_deletion", "truncate", "undelete"]
    broadcast = ROOT / "broker" / "metadata" / "broadcast.py"
    for path in [broadcast, *folder.glob("*_decisions.py"), *(folder / f"{name}.py" for name in pure)]:
        name, tree = path.stem, ast.parse(path.read_text())
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)], name
        outside = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert outside <= {"msgspec"}, name


def test_the_console_is_a_client() -> None:
    """The console also works with Apache Kafka, and the broker does not import it."""
    used = {imported for top, path in modules() if top == "console" for imported in imports(path, "pybroker")}
    assert used - {"console", "wall_clock"} == {"client"}
    users = {path.relative_to(ROOT).as_posix() for top, path in modules() if "console" in imports(path, "pybroker")}
    assert {user for user in users if not user.startswith("console/")} == {"cli/console.py"}
