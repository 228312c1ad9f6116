"""`pybroker adopt` that kills itself at a named step: `python -m tests.topic_ids.adopt_child STEP adopt DIR…`. The
steps are between the durable ones of `pybroker/broker/offline/adopt/adoption_steps.py`, which has no code for this."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pybroker.broker.offline.adopt import adoption_steps
from pybroker.cli import cli


def die(*arguments: Any, **named: Any) -> Any:
    del arguments, named
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(work: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        work(*arguments, **named)
        die()

    return call


def main() -> None:
    step = sys.argv.pop(1)
    if step == "store":
        adoption_steps._topic = die
    elif step == "synced":
        adoption_steps._sync = die_after(adoption_steps._sync)
    elif step == "renamed":
        adoption_steps.finish = die
    elif step == "properties":
        adoption_steps.write_properties_of = die
    else:
        adoption_steps.shutil.rmtree = die
    cli()


if __name__ == "__main__":
    main()
