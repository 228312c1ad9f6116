"""Runs commands one after the other in one process: Spark's JVM takes seconds to start, and only the first command has
to start it. As a program, it reads a JSON list of argument lists and writes the result of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from click.testing import CliRunner

from pybroker.cli import cli
from tests.support.brokers import BrokerProcess

TIMEOUT_S = 600
PROGRESS = re.compile(r" → .*, \d+ s$")


@dataclass(frozen=True)
class Done:
    """The result of a command. A traceback is in `err`, progress lines of a slow machine are not."""

    code: int
    out: str
    err: str
    progress: str = ""

    @property
    def told(self) -> Any:
        """Return the output of a successful command, as JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def line(self, code: int = 1) -> str:
        """Return the only line of a failed command."""
        assert self.code == code, f"{self.code}: {self.out}{self.err}"
        assert code != 1 or len(self.err.splitlines()) == 1, self.err
        return self.err.splitlines()[-1].removeprefix("Error: ")


def run_all(broker: BrokerProcess, commands: Mapping[str, Sequence[str]], timezone: str) -> dict[str, Done]:
    """Return the result of each command, by its name in the argument. The JVM and others may print nothing else."""
    asked = [[*each, "--bootstrap-server", broker.bootstrap] for each in commands.values()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.commands"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "TZ": timezone},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(zip(commands, (Done(**each) for each in json.loads(done.stdout)), strict=True))


def apart(stderr: str) -> tuple[str, str]:
    """Separate a command's messages about itself from its progress lines."""
    lines = stderr.splitlines(keepends=True)
    told, moving = ("".join(line for line in lines if bool(PROGRESS.search(line)) == which) for which in (False, True))
    return told, moving


def _run(arguments: list[str]) -> Done:
    result = CliRunner().invoke(cli, arguments)
    trace = ""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        trace = "".join(traceback.format_exception(result.exception))
    return Done(result.exit_code, result.stdout, *apart(result.stderr + trace))


if __name__ == "__main__":
    print(json.dumps([asdict(_run(each)) for each in json.load(sys.stdin)]))
