"""No module depends on a module that depends on it, in Rust or in Python. Each crate and each package therefore has
layers, and a layer can be read without the layers above it.

To break a circle, move the code that both sides need to a layer below them, or let the upper layer pass it in.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.circles import circles
from tests.architecture.python_modules import folders, imports
from tests.architecture.rust_modules import crate, levels

ROOT = Path(__file__).parents[2]
CRATES = sorted(path.parent.parent.name for path in ROOT.glob("native/*/src/lib.rs"))

FOLDER_FILES_MIN = 7
"""In Rust, the files of a folder with fewer files than this count as parts of one module."""

RUST_CIRCLES: dict[str, list[list[str]]] = {}
"""The circles that still exist. The list may only shrink: remove a circle from it when it is broken."""


def rust_circles(src: Path) -> list[list[str]]:
    """Yield the circles of the crate, then of each of its large folders. The folder's own file has the folder's
    name."""
    return [
        ["::".join((*folder, name)) if name != "self" else "::".join(folder) or "lib" for name in circle]
        for folder, graph in levels(crate(src), FOLDER_FILES_MIN)
        for circle in (sorted(circle, key=lambda name: name != "self") for circle in circles(graph))
    ]


@pytest.mark.parametrize("name", CRATES)
def test_modules_of_a_crate_form_floors(name: str) -> None:
    assert rust_circles(ROOT / "native" / name / "src") == RUST_CIRCLES.get(name, [])


def test_the_list_of_circles_names_crates_that_are_there() -> None:
    assert set(RUST_CIRCLES) <= set(CRATES)


def test_python_modules_import_in_no_circle() -> None:
    assert circles(imports(ROOT / "pybroker")) == []


def test_python_folders_form_floors() -> None:
    assert [circle for graph in folders(imports(ROOT / "pybroker")) for circle in circles(graph)] == []


LIB = """
mod a; mod b; mod c; // mod ghost;
#[cfg(test)]
mod tests;
pub use c::{Shown, self as see};
pub use a::*;
"""


def plant(src: Path, **files: str) -> None:
    src.mkdir(exist_ok=True)
    for name, text in {"lib": LIB, **files}.items():
        (src / f"{name}.rs").write_text(text)


def test_each_way_to_name_a_module_is_seen(tmp_path: Path) -> None:
    uses = [
        "use crate::b::Thing;",
        "use super::{c::Other, b::{self, Thing as Renamed}};",
        "fn f() -> u8 { crate::b::make() }",
        "type T = Vec<super::b::Thing>;",
        "macro_rules! m { () => { $crate::b::make() } }",
        "mod inner { fn g() { super::super::b::make() } }",
        'const Q: char = \'"\'; use crate::b::Thing; const R: &str = r#" " "#;',
        "#[cfg(not(test))] use crate::b::Thing;",
        "#[cfg(test)] mod t { use super::*; } use crate::b::Thing;",
        "use crate::Through;",
    ]
    for use in uses:
        plant(
            tmp_path,
            lib=LIB + "pub use b::Thing as Through;",
            a=use + " pub struct Known;",
            b="use crate::Known; pub struct Thing;",
            c="pub struct Shown; pub struct Other;",
        )
        assert rust_circles(tmp_path) == [["a", "b"]], use


def test_tests_comments_and_texts_name_nobody(tmp_path: Path) -> None:
    nothing = [
        "// use crate::b::Thing;\n",
        "/* use crate::b::Thing; /* inner */ use crate::b::Thing; */",
        'const S: &str = "use crate::b::Thing; \\" crate::b::make()";',
        "#[cfg(test)] use crate::{b::Thing};",
        "#[cfg(test)] #[allow(unused)] mod t { use crate::b::Thing; }",
        "struct S<'a> { #[cfg(test)] t: crate::b::Thing, x: &'a u8 }",
        "fn f<'b>(b: &'b u8) -> char { 'b' }",
        "use std::b::Thing; use crate::Shown;",
    ]
    for use in nothing:
        plant(tmp_path, a=use + " pub struct Known;", b="use crate::a::Known; pub struct Thing;", c="pub struct Shown;")
        assert rust_circles(tmp_path) == [], use


def test_a_large_folder_has_floors_of_its_own_and_may_show_its_files(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(FOLDER_FILES_MIN)]
    declared = "".join(f"mod {name};" for name in names)
    files = dict.fromkeys(names, "use super::Base; pub struct Part;")
    plant(tmp_path, lib="mod a;", a=declared + "pub use f0::Part; pub struct Base;")
    plant(tmp_path / "a", **{"lib": "", **files})
    assert rust_circles(tmp_path) == []
    plant(tmp_path, lib="mod a;", a=declared + "use f0::Part; pub struct Base(Part);")
    assert rust_circles(tmp_path) == [["a", "a::f0"]]


def test_python_circles_are_seen_inside_functions_too(tmp_path: Path) -> None:
    package = tmp_path / "thing"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from thing.inner import b\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "b.py").write_text("def f():\n    from .. import a\n")
    graph = imports(package)
    assert circles(graph) == [["thing.a", "thing.inner.b"]]
    assert [circle for graph in folders(graph) for circle in circles(graph)] == [["thing.a", "thing.inner"]]
