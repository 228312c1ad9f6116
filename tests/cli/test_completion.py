"""What a shell offers behind TAB: commands, options, and names that the broker knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.kit import batch, create, produce, unique
from tests.wire.client import WireClient

LIMIT_S = 60.0


def offered(*words: str) -> list[str]:
    """The words that are offered for the last one, asked as bash asks."""
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


def test_commands_verbs_and_options() -> None:
    assert {"topics", "start", "ingest", "completion"} <= set(offered(""))
    assert offered("gro") == ["groups"]
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
    assert offered("topics", "describe", *here, prefix) == names
    assert offered("topics", "--describe", *here, "--topic", prefix) == names
    assert offered("topics", "alter", *here, f"{prefix}-b") == names[1:]
    assert offered("archive", *here, prefix) == names
    assert offered("configs", "describe", *here, "--topic", prefix) == names
    assert str(ids[f"{prefix}-a"]) in offered("topics", "delete", *here, "--topic-id", "")
    subprocess.run(
        [sys.executable, "-m", "pybroker", "topics", "delete", names[1], *here],
        check=True,
        timeout=LIMIT_S,
        capture_output=True,
    )
    gone = offered("topics", "undelete", *here, "")
    assert str(ids[names[1]]) in gone
    assert str(ids[names[0]]) not in gone
    assert not [name for name in offered("topics", "describe", *here, "") if name.startswith("__")]
    assert offered("configs", "describe", *here, "--broker", "") == ["1"]
    reset = ["groups", "reset-offsets", group, "--topic", names[0], "--to-earliest", "--execute", *here]
    subprocess.run([sys.executable, "-m", "pybroker", *reset], check=True, timeout=LIMIT_S, capture_output=True)
    assert group in offered("groups", "describe", *here, "group")


def test_nobody_who_could_tell(tmp_path: Path) -> None:
    """Nothing is offered then, and nothing is said in the middle of a line that is being typed."""
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
    """The whole way: the script in a bash, which calls the program by its name."""
    name = unique("bash")
    with WireClient(broker.port) as client:
        create(client, name)
    words = f"pybroker topics describe --bootstrap-server {broker.bootstrap} {name[:-1]}"
    script = (
        'eval "$(pybroker completion bash)"; '
        f"COMP_WORDS=({words}); COMP_CWORD=5; _pybroker_completion pybroker; echo ${{COMPREPLY[@]}}"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "PATH": path},
        check=True,
    )
    assert done.stdout.split() == [name], done.stderr
