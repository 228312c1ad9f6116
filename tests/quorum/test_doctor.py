"""`pybroker doctor --config` of a broker in a metadata quorum: mistakes in the voters are found before the start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.testing.child_processes import free_port
from tests.quorum.scene import QuorumBroker

OWN, OTHER, THIRD = (free_port() for _ in range(3))
VOTERS = "controller.quorum.voters"


def checked(broker: QuorumBroker, what: str = "quorum") -> list[str]:
    """Return state and words of the findings about the quorum."""
    command = broker.command()
    sets = [part for at, word in enumerate(command) if word == "--set" for part in ("--set", command[at + 1])]
    done = CliRunner().invoke(cli, ["doctor", "--json", *sets])
    found = json.loads(done.stdout)["checks"]
    assert not [each for each in found if each["what"] == "zookeeper"]
    return [f"{each['state']} {each['says']}" for each in found if each["what"] == what]


@pytest.fixture
def broker(tmp_path: Path) -> QuorumBroker:
    return QuorumBroker(tmp_path, 1, {1: OWN, 2: OTHER, 3: THIRD})


def voters(ports: Mapping[int, int]) -> str:
    return ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports.items())


def test_voters_that_are_right_and_do_not_run(broker: QuorumBroker) -> None:
    assert checked(broker) == [
        "ok 3 voters: 1, 2, 3",
        f"warn voter 2 at 127.0.0.1:{OTHER} does not answer",
        f"warn voter 3 at 127.0.0.1:{THIRD} does not answer",
    ]


def test_two_voters_with_one_address(broker: QuorumBroker) -> None:
    broker.settings[VOTERS] = voters({1: OWN, 2: OTHER, 3: OTHER})
    assert checked(broker) == [f"bad {VOTERS}: 2 voters have the address 127.0.0.1:{OTHER}"]


def test_the_address_of_a_listener_for_clients(broker: QuorumBroker) -> None:
    broker.settings[VOTERS] = voters({1: broker.port, 2: OTHER, 3: THIRD})
    (found,) = checked(broker, "settings")
    assert f"port {broker.port} of node 1 is that of the listener PLAINTEXT, and brokers use BETWEEN" in found


def test_an_address_without_a_listener(broker: QuorumBroker) -> None:
    unused = free_port()
    broker.settings[VOTERS] = voters({1: unused, 2: OTHER, 3: THIRD})
    assert checked(broker) == [f"bad {VOTERS} has node 1 at port {unused}: no listener of this broker"]


def test_a_broker_that_does_not_vote_and_an_even_number(broker: QuorumBroker) -> None:
    broker.settings[VOTERS] = voters({2: OTHER, 3: THIRD})
    assert checked(broker)[:2] == [
        f"warn {VOTERS} does not have node 1: this broker follows the metadata log and does not vote",
        "warn 2 voters need 2 for a majority: they survive no more failures than 1",
    ]


def test_a_directory_of_another_cluster(broker: QuorumBroker, tmp_path: Path) -> None:
    # Without other voters, the voter with the lowest id founds its own cluster.
    other = QuorumBroker(tmp_path / "other", 2, {2: OTHER, 3: THIRD})
    other.launch()
    try:
        other.await_answers()
        found = checked(broker)
        assert found[1].startswith(f"ok voter 2 at 127.0.0.1:{OTHER} answers: cluster ")
        broker.data_dir.mkdir()
        (broker.data_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=of-before\n")
        cluster_id = found[1].rpartition(" ")[2]
        assert checked(broker)[-1] == (
            f"bad {broker.data_dir} belongs to cluster of-before, the other voters to {cluster_id}"
        )
    finally:
        other.kill()
