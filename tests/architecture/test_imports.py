"""Imports point downward only; controller and replicas are strangers; decisions neither wait nor touch anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "pybroker"

# From the top down; the parts of one line are strangers to each other.
LAYERS: list[set[str]] = [
    {"__main__"},
    {"cli", "testing"},
    {"process", "offline", "console"},
    {"app"},
    {"broker_routes", "client_routes", "composition", "diagnosis", "dispatch", "observability", "otlp", "startup"},
    {"services"},
    {"api"},
    {"admin", "coordinators", "ingest", "telemetry"},
    {"security"},
    {"controller", "replicas"},
    {"interbroker"},
    {"cluster"},
    {"metadata"},
    {"spark"},
    {"client"},
    {"requests"},
    {"config"},
    {"protocol"},
    {"native"},
    {"clock", "collector", "files", "version", "cluster_resource", "logs", "web_request"},
    {"json_lines", "printable"},
    {"errors", "log_limits", "topic_names"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

OUTSIDE = {"roundtrip", "__init__", "_native"}
"""Not part of the broker: the main job's own program, and the package itself."""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pybroker"):
            if node.module == "pybroker":
                yield from (alias.name for alias in node.names)
            else:
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pybroker."))


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        top = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if top not in OUTSIDE:
            yield top, path


def test_every_module_has_its_place() -> None:
    assert {top for top, _ in modules()} - set(RANK) == set()


def test_imports_point_downward() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports pybroker.{imported}"
        for top, path in modules()
        for imported in imports(path)
        if imported != top and imported not in OUTSIDE
        if RANK[imported] <= RANK[top]
    ]
    assert wrong == []


def test_only_one_module_imports_the_extension() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for _, path in modules()
        for imported in imports(path)
        if imported == "_native"
    }
    assert importers <= {"native.py"}


def test_decisions_neither_wait_nor_do_anything() -> None:
    pure = ["topics", "brokers", "configs", "security", "topic_deletion", "placement", "leader_election", "broadcast"]
    pure += ["truncate", "undelete", "purge", "decision", "ingests", "isr", "elect_leaders", "partition_states"]
    pure += ["reassignment"]
    for name in pure:
        tree = ast.parse((ROOT / "controller" / f"{name}.py").read_text())
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)], name
        outside = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert outside <= {"msgspec"}, name


def test_the_console_is_a_client() -> None:
    """It asks as any other client, so that it shows Apache Kafka as well; the broker does not know it."""
    used = {imported for top, path in modules() if top == "console" for imported in imports(path)}
    assert used - {"console"} == {"client"}
    users = {path.relative_to(ROOT).as_posix() for top, path in modules() if "console" in imports(path)}
    assert {user for user in users if not user.startswith("console/")} == {"cli/console.py"}
