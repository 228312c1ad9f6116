"""Finds which module of a Rust crate names which other one: read from `mod`, `use` and the paths in the code, without
tests.

A method call on a value contains no path: only names of types, functions and constants are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Module = tuple[str, ...]
"""A module's path below the crate; () is `lib.rs`."""

_TOKEN = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes))
    | (?P<string>(?:\b[bc])?"(?:\\(?:.|\n)|[^"\\])*")
    | (?P<char>b?'(?:\\[^\n]+?|[^\\'\n])')
    | (?P<word>r\#\w+|'?\w+)
    | (?P<mark>::|.)
    """,
    re.VERBOSE,
)
_DEFINES = {"struct", "enum", "union", "trait", "fn", "const", "static", "type"}
_CLOSES = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Source:
    """The texts of one module."""

    used: list[Module] = field(default_factory=list)
    """Paths as written, `use` and in the code alike."""
    taken: dict[str, Module] = field(default_factory=dict)
    """Imported names, and the paths that `use` gives for them."""
    shown: set[str] = field(default_factory=set)
    """The part of `taken` that `pub use` exports."""
    defined: set[str] = field(default_factory=set)
    children: set[str] = field(default_factory=set)


def tokens(text: str) -> list[str]:
    """Return words and punctuation, without comments; a literal becomes `""`."""
    found = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match
        at = match.end()
        match match.lastgroup:
            case "block":
                at = _end_of_comment(text, at)
            case "raw" | "string" | "char" | "hashes":
                found.append('""')
            case "word" | "mark":
                found.append(match.group())
    return found


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    raise ValueError("a comment without an end")


def crate(src: Path) -> dict[Module, Source]:
    """Return every module of the crate whose `lib.rs` is in `src`, without modules only for tests."""
    modules: dict[Module, Source] = {}
    todo: list[tuple[Module, Path, Path]] = [((), src / "lib.rs", src)]
    while todo:
        module, file, folder = todo.pop()
        for child in _Parser(tokens(file.read_text()), modules).run(module):
            below = folder.joinpath(*child[len(module) :])
            file = below.with_suffix(".rs")
            todo.append((child, file if file.exists() else below / "mod.rs", below))
    return modules


class _Parser:
    def __init__(self, words: list[str], modules: dict[Module, Source]) -> None:
        self._words = words
        self._modules = modules
        self._at = 0

    def run(self, module: Module) -> list[Module]:
        """Read the text of `module`; return the modules that are in files of their own."""
        self._files: list[Module] = []
        self._body(module, len(self._words))
        return self._files

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else ""

    def _body(self, module: Module, end: int) -> None:
        source = self._modules.setdefault(module, Source())
        shown = False
        while self._at < end:
            word = self._word()
            if word == "#" and self._word(1) in ("[", "!"):
                self._attribute()
            elif word == "pub":
                shown = True
                self._at += 1
                if self._word() == "(":
                    self._at = self._close(self._at)
            elif word == "mod" and self._word(2) in (";", "{"):
                self._module(module, source)
            elif word == "use":
                self._use(source, shown)
            elif word in _DEFINES and self._word(1).isidentifier():
                source.defined.add(self._word(1))
                self._at += 2
            elif word == "macro_rules" and self._word(1) == "!":
                source.defined.add(self._word(2))
                self._at += 3
            elif self._word(1) == "::" and word.isidentifier():
                source.used.append(self._path())
            else:
                self._at += 1
            shown = word == "pub"

    def _module(self, module: Module, source: Source) -> None:
        name = self._word(1)
        source.children.add(name)
        if self._word(2) == ";":
            self._files.append((*module, name))
            self._at += 3
        else:
            self._at += 2
            end = self._close(self._at)
            self._at += 1
            self._body((*module, name), end - 1)
            self._at = end

    def _attribute(self) -> None:
        """Skip an attribute, and with `cfg(test)` also the item after it."""
        start = self._at + (2 if self._word(1) == "!" else 1)
        end = self._close(start)
        inside = self._words[start:end]
        self._at = end
        if inside[1:3] == ["cfg", "("] and "test" in inside and "not" not in inside:
            while self._word() == "#":
                self._at = self._close(self._at + 1)
            self._skip_item()

    def _skip_item(self) -> None:
        item = {"use", "mod", "fn", "impl", "struct", "enum", "trait", "const", "static", "type", "pub", "async"}
        ends = {";"} if self._word() in item else {";", ","}
        head = self._words[self._at : self._at + 6]
        uses = "use" in head[: head.index("{") if "{" in head else None]
        while self._at < len(self._words) and self._word() not in ends | {"}"}:
            block = self._word() == "{" and not uses
            self._at = self._close(self._at) if self._word() in _CLOSES else self._at + 1
            if block:
                return
        if self._word() != "}":
            self._at += 1

    def _close(self, at: int) -> int:
        """Return the position after the bracket that closes the one at `at`."""
        depth = 0
        for place in range(at, len(self._words)):
            if self._words[place] in _CLOSES:
                depth += 1
            elif self._words[place] in _CLOSES.values():
                depth -= 1
                if depth == 0:
                    return place + 1
        raise ValueError("a bracket without an end")

    def _path(self) -> Module:
        parts = [self._word()]
        self._at += 1
        while self._word() == "::" and self._word(1).isidentifier():
            parts.append(self._word(1))
            self._at += 2
        if self._word() == "::":
            self._at += 1
        return tuple(parts)

    def _use(self, source: Source, shown: bool) -> None:
        self._at += 1
        for path, name in self._tree(()):
            source.used.append(path)
            source.taken[name] = path
            if shown:
                source.shown.add(name)

    def _tree(self, prefix: Module) -> Iterator[tuple[Module, str]]:
        """Yield the paths of a `use`, and the name that each of them imports (`*` and the path for all names of a
        module)."""
        while self._word() not in (";", "}", ""):
            path = prefix
            name = ""
            while self._word() not in (";", "}", ",", ""):
                word = self._word()
                self._at += 1
                if word == "{":
                    yield from self._tree(path)
                    name = ""
                elif word == "*":
                    name = f"*{'::'.join(path)}"
                elif word == "as":
                    name = self._word()
                    self._at += 1
                elif word == "self" and path:
                    name = path[-1]
                elif word not in ("::", "}"):
                    path = (*path, word)
                    name = word
            if name:
                yield path, name
            if self._word() == ",":
                self._at += 1
        if self._word() == "}":
            self._at += 1


def edges(modules: dict[Module, Source]) -> set[tuple[Module, Module]]:
    """Return which module uses names that another one defines. A `pub use` of a module's own children is no edge: users
    of the name depend on the child."""
    found = set()
    for module, source in modules.items():
        own = {source.taken[name] for name in source.shown}
        for path in source.used:
            target = _target(modules, module, path)
            if target is None or target == module:
                continue
            if path in own and target[: len(module)] == module:
                continue
            found.add((module, target))
    return found


def _target(modules: dict[Module, Source], module: Module, path: Module, depth: int = 0) -> Module | None:
    """Return the module that defines the target of `path` in `module`; None: the path leads to another crate."""
    first, rest = path[0], path[1:]
    if first == "crate":
        at: Module = ()
    elif first == "self":
        at = module
    elif first == "super":
        at = module[:-1]
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
    elif first in modules[module].children:
        at, rest = module, path
    else:
        return None
    while rest and (*at, rest[0]) in modules:
        at, rest = (*at, rest[0]), rest[1:]
    if not rest or rest[0] in modules[at].defined or depth > 20:
        return at
    taken = modules[at].taken
    if rest[0] in taken:
        return _target(modules, at, (*taken[rest[0]], *rest[1:]), depth + 1)
    for name, through in taken.items():
        if name.startswith("*"):
            inner = _target(modules, at, (*through, *rest), depth + 1)
            if inner is not None and rest[0] in modules[inner].defined:
                return inner
    return at


def levels(modules: dict[Module, Source], files_min: int) -> Iterator[tuple[Module, dict[str, set[str]]]]:
    """Return a graph for the crate, and for each folder with at least `files_min` files: the modules directly in it. A
    folder's own file (`log.rs` beside `log/`, or `lib.rs`) is the node `self`."""
    named = edges(modules)
    for folder in sorted(modules):
        children = [module for module in modules if module[:-1] == folder and module]
        if folder and len(children) < files_min:
            continue
        if not children:
            continue
        graph: dict[str, set[str]] = {}
        for source, target in named:
            if source[: len(folder)] == folder == target[: len(folder)]:
                a, b = (path[len(folder)] if len(path) > len(folder) else "self" for path in (source, target))
                if a != b:
                    graph.setdefault(a, set()).add(b)
                    graph.setdefault(b, set())
        yield folder, graph
