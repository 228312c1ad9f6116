"""The typed stub and the native module define the same names."""

from __future__ import annotations

import ast
from pathlib import Path

import pybroker
from pybroker import _native

STUB = Path(pybroker.__file__).with_name("_native.pyi")
# Attributes that the interpreter adds to a class; the stub names only those that callers use.
GIVEN = {name for name in dir(type("Plain", (), {})) if name.startswith("__")} | {"__getnewargs__", "__int__"}


def stubbed() -> dict[str, set[str]]:
    """Return the top-level names of the stub, and for classes their members."""
    names: dict[str, set[str]] = {}
    for node in ast.parse(STUB.read_text()).body:
        match node:
            case ast.ClassDef():
                inner = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                inner |= {
                    item.target.id
                    for item in node.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                }
                names[node.name] = inner
            case ast.FunctionDef():
                names[node.name] = set()
            case ast.AnnAssign(target=ast.Name(id=name)):
                names[name] = set()
    return names


def test_the_stub_names_what_the_module_has_and_nothing_else() -> None:
    stub = stubbed()
    exported = {name for name in dir(_native) if not name.startswith("__")}
    assert exported == set(stub)


def test_classes_have_the_members_that_the_stub_names() -> None:
    for name, members in stubbed().items():
        there = getattr(_native, name)
        missing = [member for member in members if not hasattr(there, member) and member not in {"code", "message"}]
        assert not missing, f"{name}: {missing}"
        if isinstance(there, type) and not issubclass(there, Exception):
            unnamed = {member for member in vars(there) if not member.startswith("__")} - members
            assert not unnamed, f"{name} has more than the stub says: {unnamed}"


def test_the_facades_export_the_whole_module() -> None:
    from pybroker import native, native_quorum

    exported = {name for name in dir(_native) if not name.startswith("__")}
    assert exported == {*native.__all__, *native_quorum.__all__}
    assert not {*native.__all__} & {*native_quorum.__all__}
