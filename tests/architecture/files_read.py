"""List the files to read to follow CreateTopics in Python: `python -m tests.architecture.files_read [--functions]`.

A broker runs with a profiler. The list has each file of `pybroker/` with a function that ran during a CreateTopics and
that does not run while the broker is idle, in order of the first call: lines of these functions, lines of the file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pybroker.client import NewTopic
from pybroker.client.blocking import AdminClient
from tests.architecture.prose import ROOT
from tests.support.brokers import PybrokerProcess

IDLE_S = 3.0
SETTLED_S = 1.0
"""Time after a response until the broker is idle again."""

PROFILED = """
import sys, time
calls = []
def record(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(ROOT):
        calls.append((time.monotonic(), frame.f_code))
sys.setprofile(record)
from pybroker.__main__ import main
try:
    main()
finally:
    sys.setprofile(None)
    with open(CALLS, "w") as file:
        for at, code in calls:
            last = max(line for _, _, line in code.co_lines() if line is not None)
            print(at, code.co_firstlineno, last, code.co_filename, code.co_qualname, sep="\\t", file=file)
"""


class Function(NamedTuple):
    first_line: int
    last_line: int
    path: str
    name: str


class _Profiled(PybrokerProcess):
    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        code = PROFILED.replace("ROOT", repr(str(ROOT / "pybroker"))).replace("CALLS", repr(str(self._calls)))
        return [python, "-c", code, *arguments]

    @property
    def _calls(self) -> Path:
        return self.folder / "calls"

    def calls(self) -> Iterator[tuple[float, Function]]:
        for line in self._calls.read_text().splitlines():
            at, first, last, path, name = line.split("\t")
            yield float(at), Function(int(first), int(last), path, name)


def functions_run() -> dict[Path, list[Function]]:
    """Return the functions of each file that one CreateTopics runs, in order of their first call."""
    with tempfile.TemporaryDirectory() as folder:
        broker = _Profiled(Path(folder))
        broker.start()
        with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            admin.create_topics([NewTopic("imports-the-modules", 1)])
            time.sleep(SETTLED_S)
            idle = time.monotonic()
            time.sleep(IDLE_S)
            begin = time.monotonic()
            admin.create_topics([NewTopic("followed", 1)])
            end = time.monotonic()
        broker.stop()
        calls = list(broker.calls())
    always = {function for at, function in calls if idle <= at < begin}
    found: dict[Path, list[Function]] = {}
    for function in dict.fromkeys(function for at, function in calls if begin <= at < end):
        if function not in always:
            found.setdefault(Path(function.path).relative_to(ROOT), []).append(function)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--functions", action="store_true", help="print the names of the functions, too")
    with_names = options.parse_args().functions
    found = functions_run()
    run = lines = 0
    for path, functions in found.items():
        run_here = len({line for each in functions for line in range(each.first_line, each.last_line + 1)})
        lines_here = len((ROOT / path).read_text().splitlines())
        run, lines = run + run_here, lines + lines_here
        print(f"{run_here:4} of {lines_here:4} {path}", *(each.name for each in functions if with_names))
    print(f"{run} lines of functions in {len(found)} files of {lines} lines")


if __name__ == "__main__":
    main()
