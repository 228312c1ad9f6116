"""One broker's report about itself. A separate thread collects it. Only the loop can provide one part, for which the
thread waits at most LOOP_S seconds; if the loop hangs, the report has the other parts.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import resource
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pybroker.broker.logs import last_lines
from pybroker.broker.metadata.metadata_store import Node, StoreError
from pybroker.broker.observability.diagnosis import node_documents, redaction, stacks
from pybroker.config import BrokerConfig
from pybroker.version import version

LOOP_S = 20.0


class Subject(NamedTuple):
    """The sources of a report. The loop calls `metadata` and `quorum`."""

    config: BrokerConfig
    loop: asyncio.AbstractEventLoop
    metrics: Callable[[], Awaitable[str]]
    metadata: Callable[[], Awaitable[Mapping[str, Node]]]
    """Function that returns the nodes of the metadata store. It raises StoreError."""
    quorum: Callable[[], Awaitable[dict[str, Any] | None]]
    """Returns the state of the metadata quorum; None with a metadata store."""


def report(about: Subject) -> dict[str, Any]:
    """Return the report for JSON. `problems` contains the missing parts and the reasons."""
    problems: dict[str, str] = {}

    def asked(part: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        async def answer() -> Any:
            return await ask()

        future = asyncio.run_coroutine_threadsafe(answer(), about.loop)
        try:
            return future.result(LOOP_S)
        except (TimeoutError, concurrent.futures.TimeoutError):
            future.cancel()
            problems[part] = f"the broker's loop has not answered within {LOOP_S:.0f} s"
        except (StoreError, OSError) as problem:
            problems[part] = str(problem) or type(problem).__name__
        return None

    threads, tasks = stacks.python_threads(), stacks.tasks(about.loop)
    metadata = asked("metadata", about.metadata)
    parts: dict[str, Any] = {
        "threads": threads,
        "tasks": tasks,
        "kernel_threads": stacks.kernel_threads(),
        "log": last_lines(),
        "process": process(),
        "metrics": asked("metrics", about.metrics),
        "metadata": None if metadata is None else node_documents.document(metadata),
        "quorum": asked("quorum", about.quorum),
        "settings": redaction.settings(about.config),
    }
    clean = redaction.Cleaner(redaction.secrets(about.config))
    return {"version": version(), "pid": os.getpid(), "problems": problems, **cleaned(parts, clean)}


def cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """Return the value with secrets removed from every text in it, including names."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(name)): cleaned(each, clean) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(each, clean) for each in value]
    return value


def process() -> dict[str, Any]:
    """Return statistics of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    files = Path("/proc/self/fd")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu_user_s": used.ru_utime,
        "cpu_system_s": used.ru_stime,
        "page_faults_major": used.ru_majflt,
        "status": _text(Path("/proc/self/status")),
        "io": _text(Path("/proc/self/io")),
        "open_files": len(list(files.iterdir())) if files.is_dir() else None,
        "limits": {name: list(resource.getrlimit(getattr(resource, name))) for name in limits},
    }


def _text(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # Only Linux has this file.
        return []
