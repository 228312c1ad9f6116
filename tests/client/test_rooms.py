"""The packages of the client library import only packages below them."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.python_modules import imports

PACKAGE = "pybroker.client"
ROOT = Path(__file__).parents[2] / "pybroker"

# The layers from top to bottom; the packages in one line do not import each other.
FLOORS: list[set[str]] = [
    {"__init__"},
    {"blocking"},
    {"deletion_impact", "topic_events"},
    {"admin", "producer"},
    {"consumer", "share"},
    {"connection"},
    {"plugins"},
    {"config", "producer_records"},
    {"offset_types"},
    {"cluster_metadata"},
    {"client_errors"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room(module: str) -> str:
    return module.removeprefix(PACKAGE).lstrip(".").split(".")[0] or "__init__"


GRAPH = {module: targets for module, targets in imports(ROOT).items() if f"{module}.".startswith(f"{PACKAGE}.")}


def test_every_module_is_in_a_room_that_has_its_floor() -> None:
    assert {room(module) for module in GRAPH} == set(FLOOR)


def test_rooms_know_only_what_lies_below() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, targets in GRAPH.items()
        for imported in targets & GRAPH.keys()
        if room(imported) != room(module) and FLOOR[room(imported)] <= FLOOR[room(module)]
    ]
    assert wrong == []
