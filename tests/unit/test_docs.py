"""The pages for users name only existing settings, files, tests and commands."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from pybroker.cli import cli
from pybroker.config import BROKER_SETTINGS, TOPIC_SETTINGS

ROOT = Path(__file__).parents[2]
NAMED = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benches/README.md",
    "native/README.md",
)
PAGES = [ROOT / name for name in NAMED] + sorted(ROOT.glob("docs/**/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    # Architecture pages name steps of a request's path without ".py" or ".rs".
    named = re.findall(r"`((?:tests|native|docs|benches)/[\w/.]+|pybroker/[\w/]+\.py)`", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in named if not (ROOT / path).exists()] == []


def anchor_of(heading: str) -> str:
    """Return a heading's anchor as GitHub makes it; other sites agree where it has no doubled dashes."""
    plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_exist(page: Path) -> None:
    lost = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        text = re.sub(r"^ *```.*?^ *```", "", (page.parent / target if target else page).read_text(), flags=re.M | re.S)
        if anchor not in {anchor_of(heading) for heading in re.findall(r"^#+ (.+)", text, re.MULTILINE)}:
            lost.append(f"{target}#{anchor}")
    assert lost == []


NO_SETTINGS = {"metadata.version"}
"""The level of a feature."""


@pytest.mark.parametrize(
    ("page", "some"),
    [
        ("operations.md", {"log.flush.mode", "queued.max.requests", "max.message.bytes"}),
        ("cluster.md", {"metadata.log.dir", "controller.quorum.fetch.timeout.ms", "zookeeper.connect"}),
    ],
)
def test_settings_of_tables_exist(page: str, some: set[str]) -> None:
    rows = re.findall(r"^\| (`[a-z].*?) \|", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:\.[a-z0-9]+)+)`", row)} - NO_SETTINGS
    assert some <= names
    assert names - set(BROKER_SETTINGS) - set(TOPIC_SETTINGS) == set()


QUORUM_SETTINGS = ("controller.quorum.", "metadata.log.", "metadata.max.", "broker.session.", "broker.heartbeat.")


def test_the_page_on_clusters_has_every_setting_of_a_quorum() -> None:
    table = (ROOT / "docs" / "cluster.md").read_text().rpartition("## Settings")[2]
    wanted = {name for name in BROKER_SETTINGS if name.startswith(QUORUM_SETTINGS)}
    assert len(wanted) > 10
    assert {name for name in wanted if f"`{name}`" not in table} == set()


def test_tests_named_on_the_clients_page_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "clients.md").read_text()))
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in code} == set()


GRAMMAR = re.compile(r"[\[\]|]")
"""An optional part, or alternatives: a line with one of these is not a command."""
OF_THE_SHELL = re.compile(r"\s#.*|\s\d?[<>].*")


def command_lines() -> Iterator[str]:
    """Return the commands in the pages' code blocks, split as by a shell."""
    for page in PAGES:
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                for part in re.split(r";| \| |&&", line):
                    said = OF_THE_SHELL.sub("", part).strip()
                    if said.startswith("pybroker ") and not GRAMMAR.search(said):
                        yield re.sub("(--bootstrap-server )?…", "", said.removeprefix("pybroker "))


def test_command_lines_are_understood() -> None:
    """The parser reads each command up to the point where it would have an effect."""
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


SPAN = re.compile(r"`([^`]+)`")


NO_COMMANDS = ("pybroker is ready", "pybroker os")
"""The line that a start prints, and a column of the benchmarks."""


def commands_in(text: str) -> list[str]:
    """Return the commands in the page's spans of code."""
    return [each for each in SPAN.findall(text) if each.startswith("pybroker ") and not each.startswith(NO_COMMANDS)]


def spans_of_pages() -> Iterator[tuple[str, str]]:
    """Return commands in running text with their pages, and lines of syntax from blocks."""
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
        lines = [OF_THE_SHELL.sub("", line) for block in blocks for line in block.splitlines()]
        rest = re.sub(r"^ *```\w*\n.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        found = commands_in(rest) + [line for line in lines if line.startswith("pybroker ") and GRAMMAR.search(line)]
        yield from ((page.name, each) for each in found)


def spans_of_messages() -> Iterator[tuple[str, str]]:
    """Return commands in errors, logs, help and docstrings, with their files."""
    for path in sorted((ROOT / "pybroker").rglob("*.py")):
        source = path.read_text()
        if "`pybroker " not in source:
            continue
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            yield from ((path.name, each) for each in commands_in(text))


def problem_of(span: str) -> str | None:
    """Return what is wrong with the words of a command up to its arguments, and with its long options."""
    command: click.Command = cli
    context = click.Context(cli, info_name="pybroker")
    words = span.split()[1:]
    known = set[str]()
    while True:
        known.update(option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts))
        if not isinstance(command, click.Group):
            break
        verbs = {f"--{name}" for name in command.list_commands(context)}
        if not words or not re.fullmatch(r"(--)?[a-z][a-z0-9-]*", words[0]) or words[0] in known - verbs:
            break
        found = command.get_command(context, words[0].removeprefix("--"))
        if found is None:
            return f"no command {words[0]}"
        command, context, words = found, click.Context(found, info_name=words[0], parent=context), words[1:]
    unknown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", " ".join(words))) - known
    return f"no option {', '.join(sorted(unknown))}" if unknown else None


@pytest.mark.parametrize("spans", [spans_of_pages, spans_of_messages], ids=["pages", "messages"])
def test_named_commands_and_options_exist(spans: Callable[[], Iterator[tuple[str, str]]]) -> None:
    found = sorted(set(spans()))
    assert len(found) > 30
    assert [f"{where}: {span}: {wrong}" for where, span in found if (wrong := problem_of(span))] == []
