"""Commands on the store of a stopped broker, run in a metadata quorum: `adopt-id`, and commands that are only for
ZooKeeper."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.broker.offline.offline_directories import read_properties_of, write_properties_of
from pybroker.cli import cli
from pybroker.testing.child_processes import free_port
from tests.quorum.scene import QuorumBroker


def command(broker: QuorumBroker, *words: str) -> Result:
    sets = [part for word in broker.command() if "=" in word for part in ("--set", word)]
    return CliRunner().invoke(cli, [*words, *sets])


def test_a_directory_takes_over_the_id_of_the_metadata_log(tmp_path: Path) -> None:
    """The error of a refused start recommends this command. The metadata log keeps its id."""
    broker = QuorumBroker(tmp_path / "broker", 1, {1: free_port()})
    broker.start()
    try:
        broker.stop()
        properties = read_properties_of(broker.data_dir)
        assert properties is not None
        own, second = properties["cluster.id"], tmp_path / "second"
        second.mkdir()
        shutil.copy(broker.data_dir / "meta.properties", second)
        write_properties_of(second, {**properties, "cluster.id": "elsewhere"})
        broker.settings["log.dirs"] = f"{broker.data_dir},{second}"
        with pytest.raises(RuntimeError) as refused:
            broker.start()
        assert f"`pybroker cluster adopt-id {own} --config FILE`" in str(refused.value)
        wrong = command(broker, "cluster", "adopt-id", "third", "--yes")
        assert (wrong.exit_code, f"belongs to cluster {own}, whose brokers share that id" in wrong.output) == (1, True)
        done = command(broker, "cluster", "adopt-id", own, "--yes")
        assert (done.exit_code, f"elsewhere -> {own}" in done.output) == (0, True)
        assert (read_properties_of(second) or {})["cluster.id"] == own
    finally:
        broker.kill()


def test_commands_for_zookeeper_say_so(tmp_path: Path) -> None:
    broker = QuorumBroker(tmp_path / "broker", 1, {1: free_port()})
    for words, said in (
        (("cluster", "accept-restored-store", "--yes"), "pybroker cluster quorum accept-restored"),
        (("metadata", "migrate", "--to", "zookeeper"), "metadata.store=zookeeper, zookeeper.connect="),
    ):
        refused = command(broker, *words)
        assert (refused.exit_code, said in refused.output) == (1, True), refused.output
