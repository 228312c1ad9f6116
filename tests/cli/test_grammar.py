"""One grammar for all commands: verbs as words and as options, names after the verb or as options, the nearest name to
a misspelt one. Each case runs in its own process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from pybroker.cli import cli
from pybroker.cli.grammar import SYNONYMS, VerbGroup
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import create, unique
from tests.wire.client import WireClient

LIMIT_S = 120.0


def pybroker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pybroker", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def groups() -> Iterator[tuple[str, VerbGroup, click.Context]]:
    """Return all commands that have verbs."""
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, VerbGroup):
            yield name, command, click.Context(command, info_name=name, parent=context)


def test_every_verb_of_every_command_is_a_word_and_an_option() -> None:
    """This includes aliases from other commands."""
    seen = []
    for name, group, context in groups():
        for verb in group.list_commands(context):
            same = next((verbs for verbs in SYNONYMS if verb in verbs), (verb,))
            for word in same:
                for arguments in ([word, "--help"], [f"--{word}", "--help"], ["--json", f"--{word}", "--help"]):
                    wanted = group.get_command(context, word)
                    assert wanted is not None
                    rest = group._verb_first(context, arguments)
                    assert group.get_command(context, rest[0]) is wanted, (name, arguments)
            seen.append((name, verb))
    assert ("topics", "list") in seen
    assert len(seen) > 25
    names = {"acls", "bench", "cluster", "configs", "groups", "ingest", "metadata"}
    names |= {"quotas", "topics", "transactions", "users"}
    assert {name for name, _ in seen} == names


def test_the_three_ways_to_say_a_command(broker: BrokerProcess) -> None:
    name, here = unique("said"), ("--bootstrap-server", broker.bootstrap)
    with WireClient(broker.port) as client:
        create(client, name)
    ways = [
        ("topics", "describe", name, *here),
        ("topics", "describe", "--topic", name, *here),
        ("topics", "show", name, *here),
        ("topics", "--describe", "--topic", name, *here),
        ("topics", *here, "--topic", name, "--describe"),
        ("topics", name, "--describe", *here),
    ]
    told = [pybroker(*way) for way in ways]
    assert {(each.returncode, each.stderr) for each in told} == {(0, "")}
    assert {each.stdout.splitlines()[0].split("\t")[0] for each in told} == {f"Topic: {name}"}
    assert len({each.stdout for each in told}) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["strat"], "There is no command 'strat'; did you mean 'start'?"),
        (["topcs", "list"], "There is no command 'topcs'; did you mean 'topics'?"),
        (["topics", "descibe"], "There is no command 'descibe'; did you mean 'describe'?"),
        (["topics", "--lst"], "There is no option '--lst'; did you mean '--list'?"),
        (["cluster", "--log-dir"], "There is no option '--log-dir'; did you mean '--log-dirs'?"),
        (["ingest", "xyzzy"], "There is no command 'xyzzy'; available commands: abort, describe, list, load."),
        (["topics", "list", "--jsn"], "Did you mean '--json'"),
        (["groups", "--describe", "--grup", "g"], "'--group'"),
        (["--versoin"], "--version"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest_one(arguments: list[str], told: str) -> None:
    done = pybroker(*arguments)
    assert done.returncode == 2
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_what_a_command_can_do_is_shown_without_a_verb() -> None:
    for name, group, context in groups():
        done = pybroker(name)
        assert all(f"\n  {verb} " in done.stdout + done.stderr for verb in group.list_commands(context)), name
