"""Where a command finds its broker: -b before or after the command, the environment, a profile, the default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.cli.target import target_of
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYBROKER_BOOTSTRAP_SERVER", "PYBROKER_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*words: str, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, words, env=env)


@pytest.mark.parametrize(
    "line",
    [
        "-b {here} cluster id",
        "cluster -b {here} id",
        "cluster id -b {here}",
        "-b{here} cluster id",
        "--bootstrap-server={here} cluster --id",
        "cluster --bootstrap-server {here} --id",
        "cluster --id --bootstrap-server {here}",
        "-b {nowhere} cluster -b {here} id",
        "-b {nowhere} cluster -b {nowhere} id -b {here}",
        "-b {here} topics --list",
        "topics -b {here} --topic nothing.* --list",
        "-b {here} doctor",
    ],
)
def test_the_address_may_stand_anywhere(broker: BrokerProcess, line: str) -> None:
    done = run(*line.format(here=broker.bootstrap, nowhere=NOWHERE).split(), env={"PYBROKER_BOOTSTRAP_SERVER": NOWHERE})
    assert done.exit_code == 0 or "doctor" in line, done.output
    assert "Connection refused" not in done.output


def test_environment_and_files(broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of(None, None, json=False).bootstrap_server == "127.0.0.1:9092"
    profile = tmp_path / "config" / "pybroker" / "profile.properties"
    profile.parent.mkdir(parents=True)
    profile.write_text(f"bootstrap.servers={broker.bootstrap}\nclient.id=me\n")
    done = run("cluster", "id", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cluster_id"]
    assert target_of(None, None, json=False).client_config() == {
        "bootstrap.servers": broker.bootstrap,
        "client.id": "me",
    }
    other = tmp_path / "other.properties"
    other.write_text("bootstrap.servers=other:1\nclient.id=other\n")
    monkeypatch.setenv("PYBROKER_PROFILE", str(other))
    assert target_of(None, None, json=False).bootstrap_server == "other:1"
    assert target_of(None, profile, json=False).settings["client.id"] == "me"
    monkeypatch.setenv("PYBROKER_BOOTSTRAP_SERVER", "env:1")
    assert target_of(None, None, json=False).client_config() == {"bootstrap.servers": "env:1", "client.id": "other"}
    assert target_of("given:1", None, json=False).bootstrap_server == "given:1"
    monkeypatch.setenv("PYBROKER_PROFILE", str(tmp_path / "nowhere"))
    done = run("cluster", "id")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "nowhere cannot be read" in done.stderr


def test_completion_asks_the_same_broker(broker: BrokerProcess) -> None:
    topic = unique("completed")
    assert run("-b", broker.bootstrap, "topics", "create", topic).exit_code == 0
    asked = {"COMP_WORDS": f"pybroker -b {broker.bootstrap} topics describe {topic[:5]}", "COMP_CWORD": "5"}
    env = {**os.environ, **asked, "_PYBROKER_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "pybroker"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert f"plain,{topic}" in done.stdout.splitlines()


def test_a_topic_whose_min_isr_cannot_be_met_is_warned_of(broker: BrokerProcess) -> None:
    topic = unique("min-isr")
    done = run("-b", broker.bootstrap, "topics", "create", topic, "--config", "min.insync.replicas=2")
    assert done.exit_code == 0
    assert "1 replica(s) and min.insync.replicas=2" in done.stderr
    advice = done.stderr.split("Lower it: pybroker ")[1].split()
    assert run("-b", broker.bootstrap, *advice).exit_code == 0
    assert run("-b", broker.bootstrap, "produce", topic).exit_code == 0
    assert run("-b", broker.bootstrap, "topics", "create", unique("min-isr")).stderr == ""


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfbootstrap.servers=a:1\r\n", "# Prüfung\nbootstrap.servers=a:1\n".encode("latin-1")],
    ids=["BOM", "Latin-1"],
)
def test_files_are_read_as_java_reads_them(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    assert target_of(None, file, json=False).bootstrap_server == "a:1"
