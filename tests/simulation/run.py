"""Runs seeds: `python -m tests.simulation.run --seeds 1-100`. Replay one with `--seed N --trace`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from pybroker.broker.controller import topic_decisions
from pybroker.broker.interbroker import cluster_controller_client
from pybroker.native import Uuid
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.loop import PROCESS
from tests.simulation.plants import PLANTS

TURNS = 60
STEPS_MAX = 3_000_000


class Outcome(NamedTuple):
    """The result of one seed."""

    seed: int
    digest: str
    problems: list[str]
    calls: int
    lines: list[str]


class _Bugs(logging.Handler):
    """Takes what the product itself calls a bug for a broken invariant."""

    def __init__(self, broken: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "bug in pybroker" in text or record.levelno >= logging.CRITICAL:
            cause = "" if not record.exc_info else f" {record.exc_info[1]!r}"
            self._broken(f"logged: {text}{cause}")


@contextmanager
def _seeded(cluster: SimulatedCluster) -> Iterator[None]:
    """Take ids and time from the simulation."""
    ids: Any = SimpleNamespace(random=cluster.new_id, ZERO=Uuid.ZERO)
    root = logging.getLogger("pybroker")
    level, propagate = root.level, root.propagate
    bugs = _Bugs(cluster.broken)
    root.addHandler(bugs)
    root.setLevel(logging.ERROR)
    root.propagate = False
    try:
        with (
            mock.patch.object(topic_decisions.decide_create, "__defaults__", (cluster.new_id,)),
            mock.patch.object(cluster_controller_client, "Uuid", ids),
        ):
            yield
    finally:
        root.removeHandler(bugs)
        root.setLevel(level)
        root.propagate = propagate


def run_seed(seed: int, *, turns: int = TURNS, keep_trace: bool = False, stacks: bool = False) -> Outcome:
    """Run one seed."""
    cluster = SimulatedCluster(seed, keep_trace=keep_trace)
    loop = cluster.loop

    def problem(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        cluster.broken(f"{context.get('message')}: {context.get('exception')!r}")

    loop.set_exception_handler(problem)
    gc.disable()
    with _seeded(cluster):
        try:
            loop.run_until_complete(cluster.run(turns))
        except Exception as stopped:
            cluster.broken(f"the run ended early: {stopped!r}")
            if keep_trace:
                raise
        finally:
            digest = cluster.digest
            problems = list(cluster.problems)
            if stacks:
                _print_stacks(cluster)
            loop.end()
    gc.enable()
    return Outcome(seed, digest, problems, len(cluster.calls), cluster.lines or [])


def _print_stacks(cluster: SimulatedCluster) -> None:
    for task in cluster.loop.tasks:
        process = task.get_context().get(PROCESS) if hasattr(task, "get_context") else None
        if task.done() or (process is not None and process.dead):
            continue
        print(task.get_name(), [f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in task.get_stack()])
        inner: Any = task.get_coro()
        chain = []
        while inner is not None and hasattr(inner, "cr_frame"):
            if inner.cr_frame is not None:
                chain.append(f"{inner.__qualname__}:{inner.cr_frame.f_lineno}")
            inner = inner.cr_await
        print("   ", " > ".join(chain), "|", inner)


def main() -> int:
    """Parse the arguments and run; the exit code is 1 if a run fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="1-20", help="FIRST-LAST")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no seed after this time")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--digests", action="store_true", help="print the hash of each run")
    parser.add_argument("--plant", choices=sorted(PLANTS))
    parser.add_argument("--stacks", action="store_true", help="with --seed: print what each task waits for at the end")
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    args = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets depends on the hash seed.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation.run", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    first, last = (args.seed, args.seed) if args.seed is not None else map(int, args.seeds.split("-"))
    began, failed, ran = time.monotonic(), 0, 0
    with PLANTS[args.plant]() if args.plant else mock.patch.dict({}):
        for seed in range(first, last + 1):
            if time.monotonic() - began >= args.seconds:
                break
            outcome = run_seed(seed, turns=args.turns, keep_trace=args.trace, stacks=args.stacks)
            ran += 1
            for line in outcome.lines:
                print(line)
            if args.digests:
                print(f"seed {seed} {outcome.digest}")
            if outcome.problems:
                failed += 1
                print(f"seed {seed} FAILED ({len(outcome.problems)}): {outcome.problems[0][:600]}")
                plant = f" --plant {args.plant}" if args.plant else ""
                turns = "" if args.turns == TURNS else f" --turns {args.turns}"
                print(f"  replay: python -m tests.simulation.run --seed {seed} --trace{turns}{plant}", flush=True)
                if args.first:
                    break
    print(f"{ran} seeds, {failed} failed, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
