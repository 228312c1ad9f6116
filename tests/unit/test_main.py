"""The fast path of `pybroker start` and click parse the same options."""

from __future__ import annotations

from typing import Any

import click
import pytest

from pybroker import __main__
from pybroker.broker.lifecycle.process import foreground
from pybroker.cli import cli
from pybroker.cli.start import start

PLAIN = [
    ["start"],
    ["start", "--config", "a.properties"],
    ["start", "--config=a.properties"],
    ["start", "--set", "a=b", "--set=c=d", "--set", "e="],
    ["start", "--join", "a:1", "--set", "a=b", "--join=b:2"],
    ["start", "--config", "x", "--set", "a=b", "--ready-fd", "5", "--parent-fd=6"],
]
LEFT_TO_CLICK = [
    [],
    ["--version"],
    ["start", "--help"],
    ["start", "extra"],
    ["start", "--conf", "x"],
    ["start", "--set"],
    ["start", "--set", ""],
    ["start", "--ready-fd", "x"],
    ["start", "--join"],
    ["topics"],
]


@pytest.mark.parametrize("arguments", PLAIN)
def test_both_ways_agree(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def start_command(
        file: str | None, assignments: Any, ready_fd: int | None, parent_fd: int | None, addresses: Any
    ) -> int:
        seen.append((file, tuple(assignments), ready_fd, parent_fd, tuple(addresses)))
        return 0

    monkeypatch.setattr(foreground, "start_command", start_command)
    options: Any = __main__.plain_start(arguments)
    assert options is not None
    start_command(**options)
    with pytest.raises(SystemExit):
        cli.main(arguments, prog_name="pybroker", standalone_mode=False)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("arguments", LEFT_TO_CLICK)
def test_the_rest_is_clicks(arguments: list[str]) -> None:
    assert __main__.plain_start(arguments) is None


def test_every_option_of_start_is_known_to_the_short_way() -> None:
    names = {name for option in start.params if isinstance(option, click.Option) for name in option.opts}
    assert names == set(__main__._START_OPTIONS)
