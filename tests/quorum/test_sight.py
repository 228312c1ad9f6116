"""Views of a metadata quorum for operators: metrics, `cluster health`, and the archive of `diagnose`."""

from __future__ import annotations

import json
import re
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.client import NewTopic, blocking
from pybroker.testing.child_processes import free_port
from tests.console.console_process import Browserless, console, text_of
from tests.quorum.scene import QuorumBroker, Scene, until

RAFT = "kafka_server_raft_metrics"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as scene:
        for broker in scene.brokers.values():
            broker.settings["metrics.listener"] = f"127.0.0.1:{free_port()}"
        scene.start()
        until(scene.all_vote)
        yield scene


def page(broker: QuorumBroker) -> str:
    with urllib.request.urlopen(f"http://{broker.settings['metrics.listener']}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def metrics(broker: QuorumBroker) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in page(broker).splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def problems(scene: Scene) -> dict[str, str]:
    """Return kind and text of the problems that `cluster health` reports; of each kind only the last."""
    arguments = ["cluster", "health", "--json", "--bootstrap-server", scene.bootstrap]
    done = CliRunner().invoke(cli, arguments)
    found = json.loads(done.stdout)["problems"]
    assert done.exit_code == (1 if found else 0)
    return {problem["what"]: problem["says"] for problem in found}


def test_metrics_of_the_quorum(scene: Scene) -> None:
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic("a", 3, 3)]).all()
    controller = scene.controller()
    other = next(broker_id for broker_id in scene.brokers if broker_id != controller)
    led, followed = metrics(scene.brokers[controller]), metrics(scene.brokers[other])
    for found, state in ((led, "leader"), (followed, "follower")):
        states = {name: value for name, value in found.items() if name.startswith(f"{RAFT}_current_state")}
        assert {name for name, value in states.items() if value} == {f'{RAFT}_current_state{{state="{state}"}}'}
        assert found[f"{RAFT}_current_leader"] == controller
        assert found[f"{RAFT}_number_of_voters"] == 3
        assert 0 < found[f"{RAFT}_high_watermark"] <= found[f"{RAFT}_log_end_offset"]
        assert found["kafka_server_metadataloader_currentmetadataversion"] == 33
    assert led[f"{RAFT}_commit_latency_ms_count"] > 0
    assert led[f"{RAFT}_commit_latency_ms_sum"] > 0

    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (\w*) ?\|", (ROOT / "docs/metrics.md").read_text(), re.M)
    shown = set(re.findall(r"^# TYPE (\S+)", page(scene.brokers[controller]), re.M))
    assert {name for name, where in rows if where == "quorum"} <= shown
    assert shown <= {name for name, _ in rows}
    assert not {name for name, where in rows if where == "zookeeper"} & shown


def test_health_names_voters_that_are_away_and_a_lost_majority(scene: Scene) -> None:
    until(lambda: problems(scene) == {})
    with console(scene.bootstrap) as address:
        until(lambda: "Voters 1, 2, 3 " in text_of(Browserless(address).get("/").text))
    controller = scene.controller()
    away, stays = (broker_id for broker_id in scene.brokers if broker_id != controller)
    scene.brokers[away].kill()
    until(lambda: f"voter {away} of the metadata quorum is away: it has not " in problems(scene).get("voter_away", ""))
    until(lambda: metrics(scene.brokers[controller])["pybroker_quorum_voters_away"] == 1)
    scene.brokers[controller].kill()
    lost = sorted({away, controller})
    until(
        lambda: problems(scene).get("no_majority", "").startswith(
            f"the metadata quorum has no majority: 2 of 3 voters do not respond ({lost[0]}, {lost[1]}). Records are "
        )
    )
    until(lambda: metrics(scene.brokers[stays])[f"{RAFT}_current_leader"] == -1)
    status = ["cluster", "quorum", "status", "--bootstrap-server", scene.brokers[stays].bootstrap]
    done = CliRunner().invoke(cli, [*status, "--json"])
    assert done.exit_code == 1
    assert "The metadata quorum has no leader." in done.stderr
    shown = json.loads(done.stdout)
    assert shown["leader"] is None
    rows = {row["broker"]: row for row in shown["replicas"]}
    assert {broker for broker, row in rows.items() if row["role"] == "voter"} == {1, 2, 3}
    assert [broker for broker, row in rows.items() if row["answers"]] == [stays]
    assert rows[stays]["log_end"] > 0
    assert "no leader; 1 of 3 voters answer, 2 are a majority" in CliRunner().invoke(cli, status).stdout


def bundle(broker: QuorumBroker, folder: Path) -> dict[str, Any]:
    """Return quorum.json of the archive."""
    command = broker.command()
    sets = [part for at, word in enumerate(command) if word == "--set" for part in ("--set", command[at + 1])]
    archive = folder / "bundle.tar.gz"
    done = CliRunner().invoke(cli, ["diagnose", "--output", str(archive), *sets])
    assert done.exit_code == 0, done.output
    with tarfile.open(archive) as opened:
        (name,) = (each for each in opened.getnames() if each.endswith("quorum.json"))
        file = opened.extractfile(name)
        assert file is not None
        found: dict[str, Any] = json.load(file)
    archive.unlink()
    return found


def test_the_bundle_has_the_quorum_of_a_broker_that_runs_and_one_that_does_not(scene: Scene, tmp_path: Path) -> None:
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic("a", 2, 3)]).all()
    broker = scene.brokers[scene.controller()]
    running = bundle(broker, tmp_path)
    assert running["quorum"]["role"] == "Leader"
    assert [voter["node_id"] for voter in running["quorum"]["voters"]] == [1, 2, 3]
    assert len(running["metadata"]["topics"]["a"]["partitions"]) == 2
    broker.stop()
    stopped = bundle(broker, tmp_path)
    assert stopped["metadata"]["topics"]["a"]["topic_id"] == running["metadata"]["topics"]["a"]["topic_id"]
    assert stopped["metadata"]["features"] == running["metadata"]["features"]
    assert stopped["metadata"]["offset"] >= running["metadata"]["offset"]
