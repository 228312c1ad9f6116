"""`pybroker doctor`: before a start, beside a running broker, and over the network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import pybroker
from pybroker.cli import cli
from pybroker.cli.doctor.disk_checks import FREE_SHARE_MIN
from pybroker.testing.cluster import Cluster
from tests.support.wire import free_port


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments])


def checks(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    done = doctor(*arguments, "--json")
    assert done.exit_code == code, done.output
    document = json.loads(done.stdout)
    assert document["healthy"] == (code == 0)
    return list(document["checks"])


def of(found: list[dict[str, Any]], what: str) -> list[str]:
    return [f"{each['state']} {each['says']}" for each in found if each["what"] == what]


def test_before_a_start_and_beside_the_broker(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    port = free_port()
    file.write_text(
        f"log.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.flush.mode=commit\nmax.connections=1000\n"
    )
    file.chmod(0o600)
    here = ("--config", str(file))
    before = checks(*here)
    assert of(before, "ports") == [f"ok PLAINTEXT://127.0.0.1:{port} is free"]
    assert of(before, "ids") == ["ok new directories for broker 1"]
    assert not data.exists(), "it changes nothing"

    with pybroker.Broker({"max.connections": 1000}, data_dir=data, port=port) as broker:
        beside = checks(*here)
        taken_by_it = f"ok PLAINTEXT://127.0.0.1:{port}: in use by the broker that runs on these directories"
        assert of(beside, "ports") == [taken_by_it]
        assert of(beside, "ids") == [f"ok meta.properties: broker 1 of cluster {broker.cluster_id}"]
        over_the_net = checks("--bootstrap-server", broker.bootstrap)
        assert of(over_the_net, "ids") == [f"ok cluster {broker.cluster_id}"]
        assert of(over_the_net, "durability") == ["ok log.flush.mode=commit"]
        assert of(over_the_net, "health")[0].startswith("ok 1 brokers")
        room = shutil.disk_usage(data)
        judged = "warn" if room.free < room.total * FREE_SHARE_MIN else "ok"  # tests run on full disks, too
        assert of(over_the_net, "disk")[0].startswith(f"{judged} broker 1: ")
        both = checks(*here, "--bootstrap-server", broker.bootstrap)
        assert [each["what"] for each in both].count("ids") == 2
        other = free_port()
        taken = checks("--set", f"log.dirs={tmp_path / 'other'}", "--set", f"listeners=PLAINTEXT://:{port}", code=1)
        assert of(taken, "ports") == [f"bad PLAINTEXT://:{port}: address already in use"]
        hasty = ("--command-config", str(_hasty(tmp_path)))
        away = checks("--bootstrap-server", f"{broker.bootstrap},127.0.0.1:{other}", *hasty)
        assert of(away, "ids")[0].startswith(f"warn 127.0.0.1:{other} does not respond")
    after = checks(*here)
    assert of(after, "last stop") == []
    assert of(after, "ids") == [f"ok meta.properties: broker 1 of cluster {broker.cluster_id}"]
    (data / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=another\n")
    assert "the directories belong to several clusters" in of(checks(*here, code=1), "ids")[0]


def _hasty(tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n")
    return file


def test_the_exit_code_and_the_table(tmp_path: Path) -> None:
    here = ("--set", f"log.dirs={tmp_path / 'data'}", "--set", "listeners=PLAINTEXT://127.0.0.1:0")
    done = doctor(*here, "--set", "unclean.leader.election.enable=true")
    assert done.exit_code == 1, done.output
    assert "bad   unclean election" in done.stdout
    strict = doctor(*here, "--set", "delete.topic.delay.ms=0", "--strict")
    assert strict.exit_code == 1, strict.output
    wrong = doctor("--set", "log.dris=/data")
    assert wrong.exit_code == 1
    assert "log.dirs" in wrong.stdout
    unreachable = doctor("--bootstrap-server", f"127.0.0.1:{free_port()}", "--command-config", str(_hasty(tmp_path)))
    assert unreachable.exit_code == 1
    assert unreachable.stdout == ""
    assert unreachable.stderr.startswith("Error: ")


def test_a_cluster_on_zookeeper(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    with Cluster(2, store="zookeeper") as cluster:
        file.write_text(
            f"metadata.store=zookeeper\nzookeeper.connect={cluster.zookeeper.address}\n"
            f"node.id=1\nlog.dirs={tmp_path / 'a'}\n"
            f"listeners=CLIENTS://127.0.0.1:{free_port()},BROKERS://127.0.0.1:{free_port()}\nmax.connections=1000\n"
            "listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT\ninter.broker.listener.name=BROKERS\n"
        )
        found = checks("--config", str(file), code=1)
        (answers,) = of(found, "zookeeper")
        assert answers.endswith(f"responds: cluster {cluster.cluster_id}, brokers: 1, 2")
        assert [each for each in of(found, "ids") if "broker 1 is already registered" in each]
        found = checks("--config", str(file), "--set", "node.id=3")
        assert not [each for each in of(found, "ids") if each.startswith("bad")]
        elsewhere = f"zookeeper.connect={cluster.zookeeper.address}/elsewhere"
        found = checks("--config", str(file), "--set", elsewhere)
        assert "no cluster yet" in of(found, "zookeeper")[0]
        found = checks("--config", str(file), "--set", elsewhere)
        assert "no cluster yet" in of(found, "zookeeper")[0], "nothing is written there"
        done = CliRunner().invoke(cli, ["topics", "create", "weak", "--bootstrap-server", cluster.bootstrap])
        assert done.exit_code == 0, done.output
        document = json.loads(doctor("--bootstrap-server", cluster.bootstrap, "--json").stdout)
        about = next(each for each in document["checks"] if each["what"] == "topics")
        assert (about["state"], about["topics"]) == ("bad", ["weak"]), "two replicas, and one is enough"
    found = checks("--config", str(file), code=1)
    assert of(found, "zookeeper")[0].startswith("bad zookeeper.connect=")
