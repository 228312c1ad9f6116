"""Completions by TAB: commands, options, and names that the broker knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.kit import batch, create, produce, unique
from tests.topic_ids.lives import until
from tests.wire.client import WireClient

LIMIT_S = 120.0


def offered(*words: str) -> list[str]:
    """Return the completions of the last word, requested as bash does."""
    environment = {
        **os.environ,
        "_PYBROKER_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["pybroker", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pybroker"], capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=True
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def told_by_the_broker(*words: str, which: Callable[[list[str]], bool]) -> None:
    """Check these completions; retry, because completion waits three seconds at most, and a machine may pause for that
    long."""
    found: list[str] = []

    def as_expected() -> bool:
        found[:] = offered(*words)
        return which(found)

    until(as_expected, f"{words} offers {found}")


def test_commands_verbs_and_options() -> None:
    assert {"topics", "start", "ingest", "completion"} <= set(offered(""))
    assert offered("gro") == ["groups"]
    assert offered("bench", "") == ["e2e", "fetch", "produce"]
    assert offered("bench", "produce", "--compression", "l") == ["lz4"]
    assert offered("doctor", "--boot") == ["--bootstrap-server"]
    assert offered("topics", "de") == ["delete", "deletions", "describe"]
    assert offered("topics", "--de") == ["--delete", "--deletions", "--describe"]
    assert offered("topics", "--create", "--part") == offered("topics", "create", "--part") == ["--partitions"]
    assert offered("ingest", "load", "--format", "p") == ["parquet"]


def test_names_that_the_broker_knows(broker: BrokerProcess) -> None:
    prefix, group = unique("tab"), unique("group")
    here = ("--bootstrap-server", broker.bootstrap)
    with WireClient(broker.port) as client:
        ids = {name: create(client, name).topic_id for name in (f"{prefix}-a", f"{prefix}-b")}
        produce(client, ids[f"{prefix}-a"], batch(b"v"))
    names = list(ids)
    told_by_the_broker("topics", "describe", *here, prefix, which=lambda found: found == names)
    told_by_the_broker("topics", "--describe", *here, "--topic", prefix, which=lambda found: found == names)
    told_by_the_broker("topics", "alter", *here, f"{prefix}-b", which=lambda found: found == names[1:])
    told_by_the_broker("archive", *here, prefix, which=lambda found: found == names)
    told_by_the_broker("configs", "describe", *here, "--topic", prefix, which=lambda found: found == names)
    first, second = (str(topic_id) for topic_id in ids.values())
    told_by_the_broker("topics", "delete", *here, "--topic-id", "", which=lambda found: first in found)
    subprocess.run(
        [sys.executable, "-m", "pybroker", "topics", "delete", names[1], *here],
        check=True,
        timeout=LIMIT_S,
        capture_output=True,
    )
    told_by_the_broker("topics", "undelete", *here, "", which=lambda found: second in found and first not in found)
    assert not [name for name in offered("topics", "describe", *here, "") if name.startswith("__")]
    told_by_the_broker("configs", "describe", *here, "--broker", "", which=lambda found: found == ["1"])
    reset = ["groups", "reset-offsets", group, "--topic", names[0], "--to-earliest", "--execute", *here]
    subprocess.run([sys.executable, "-m", "pybroker", *reset], check=True, timeout=LIMIT_S, capture_output=True)
    told_by_the_broker("groups", "describe", *here, "group", which=lambda found: group in found)


def test_nobody_who_could_tell(tmp_path: Path) -> None:
    """In this case completion offers nothing, and prints nothing into the line that is being typed."""
    assert offered("topics", "describe", "--bootstrap-server", f"127.0.0.1:{free_port()}", "a") == []
    assert offered("topics", "describe", "--command-config", str(tmp_path / "absent"), "a") == []
    assert offered("topics", "describe", "--bootstrap-server", "nonsense", "a") == []


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_shell_is_taught(shell: str) -> None:
    command = [sys.executable, "-m", "pybroker", "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    assert f"_PYBROKER_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, timeout=LIMIT_S, check=True)


def test_bash_completes(broker: BrokerProcess) -> None:
    """End to end: bash loads the script and calls the program by its name."""
    name = unique("bash")
    with WireClient(broker.port) as client:
        create(client, name)
    words = f"pybroker topics describe --bootstrap-server {broker.bootstrap} {name[:-1]}"
    script = (
        'eval "$(pybroker completion bash)"; '
        f"COMP_WORDS=({words}); COMP_CWORD=5; _pybroker_completion pybroker; echo ${{COMPREPLY[@]}}"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def completed() -> bool:
        done = subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env={**os.environ, "PATH": path},
            check=True,
        )
        return done.stdout.split() == [name]

    until(completed, "bash offers the name")
