"""Texts that people read in source files and documents: comments, docstrings, messages."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

NOT_PROSE = {".lock", ".sum", ".mod", ".typed", ".xz", ".png"}
DEFINES = ("tests/kip/", "docs/kip-coverage.md", "tests/architecture/test_words.py")

MARK = re.compile(r"^[ \t]*// checklist: .*$", re.MULTILINE)
CURLY = re.compile(
    r"""(?P<string>r(?P<hash>\#*)".*?"(?P=hash)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])')|(?P<comment>//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)


def prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments and docstrings (also those of attributes) with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def prose_of_curly(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments of Rust, Java and Go, and their string literals, which appear in failed tests and logs."""
    text = MARK.sub("", text)
    for match in CURLY.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def prose_of_hash(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments of TOML, make and shell. A value that contains `#` would only be read as more words."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line.partition("#")[2]


def prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the passages of a file that people read, with the line where each begins."""
    match Path(name).suffix:
        case ".py" | ".pyi":
            yield from prose_of_python(text)
        case ".rs" | ".java" | ".go":
            yield from prose_of_curly(text)
        case ".md" | ".schema" | ".txt" | ".xml":
            yield 1, text
        case _:
            yield from prose_of_hash(text)


LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log", "echo"}
SAY_CALLS = {"say", "bad", "warn", "ok"}
"""The commands' functions that print a sentence: pybroker.cli.output and pybroker.cli.doctor.finding."""
HELP_CALLS = {"named", "address_option", "place_option", "key_separator_option", "delimiter_option", "null_option"}
"""Functions of the commands that take an option's help as an argument."""
SETTING_CALLS = {"ConfigKey", "_key"}
HELP_KEYWORDS = {"help", "short_help", "epilog"}


def texts_of_python(tree: ast.AST) -> Iterator[str]:
    """Yield each string constant once that is in a log call, in printed output, in `raise`, in help of an option, or in
    a setting's documentation.
    """
    seen: set[ast.AST] = set()
    for node in ast.walk(tree):
        for root in _text_roots(node):
            for inner in ast.walk(root):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner not in seen:
                    seen.add(inner)
                    yield inner.value


def _text_roots(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node, or the parts of it, whose strings people read."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        yield node
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_method = isinstance(node.func, ast.Attribute)
        if (is_method and name in LOG_CALLS) or name in SAY_CALLS | HELP_CALLS | SETTING_CALLS:
            yield node
        else:
            yield from (each.value for each in node.keywords if each.arg in HELP_KEYWORDS)


def files() -> list[str]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in names.split("\0")
        if name and Path(name).suffix not in NOT_PROSE and not name.startswith(DEFINES) and "/seeds/" not in name
        if (ROOT / name).is_file()
    ]
