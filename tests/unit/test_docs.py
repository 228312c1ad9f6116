"""The pages for users name only existing settings, files, tests and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pybroker.cli import cli
from pybroker.config import BROKER_SETTINGS, TOPIC_SETTINGS

ROOT = Path(__file__).parents[2]
NAMED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "native/README.md")
PAGES = [ROOT / name for name in NAMED] + sorted(ROOT.glob("docs/**/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    # Steps of a request's way are named without ".py" or ".rs".
    named = re.findall(r"`((?:tests|native|docs|benches)/[\w/.]+|pybroker/[\w/]+\.py)`", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_settings_of_the_operations_page_exist() -> None:
    rows = re.findall(r"^\| (`[a-z].*?) \|", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:\.[a-z0-9]+)+)`", row)}
    assert {"log.flush.mode", "queued.max.requests", "max.message.bytes"} <= names
    assert names - set(BROKER_SETTINGS) - set(TOPIC_SETTINGS) == set()


def test_tests_named_on_the_clients_page_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "clients.md").read_text()))
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in code} == set()


GRAMMAR = re.compile(r"[\[\]|]")
"""An optional part, or one of several: such a line is not a command."""
OF_THE_SHELL = re.compile(r"\s#.*|\s\d?[<>].*")


def command_lines() -> Iterator[str]:
    """The commands in the pages' blocks, split as by a shell."""
    for page in PAGES:
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                for part in re.split(r";| \| |&&", line):
                    said = OF_THE_SHELL.sub("", part).strip()
                    if said.startswith("pybroker ") and not GRAMMAR.search(said):
                        yield re.sub("(--bootstrap-server )?…", "", said.removeprefix("pybroker "))


def test_command_lines_are_understood() -> None:
    """Each up to where it would do something."""
    lines = list(command_lines())
    assert len(lines) > 50
    wrong = []
    for line in lines:
        command: click.Command = cli
        context = click.Context(cli, info_name="pybroker")
        words = shlex.split(line)
        while isinstance(command, click.Group):
            if context.parent is not None:
                command.parse_args(context, words)
                words = [*context._protected_args, *context.args]
            name, found, words = command.resolve_command(context, words)
            assert found is not None, line
            command, context = found, click.Context(found, info_name=name, parent=context)
        try:
            command.parse_args(context, words)
        except click.UsageError as problem:
            # A file of the example, or a word such as ID for a number.
            if not isinstance(problem, click.BadParameter) or not re.search(r"does not exist|ID", problem.message):
                wrong.append(f"pybroker {line}: {problem.message}")
    assert wrong == []
