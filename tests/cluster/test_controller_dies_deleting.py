"""The controller is killed while clients create and delete topics. Every topic that still exists accepts records
afterwards."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pybroker.native import CodecError
from tests.cluster.loses_orders import CLOSED, flag
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.support.lives_in_cluster import Everywhere, LivesAt
from tests.support.taking_records import all_take_a_record

CLIENTS = 3
TOPICS = 25
"""Topics that each client creates and deletes in a round."""
SHORT_ROUNDS, ROUNDS = 2, 4
"""Rounds with one cluster."""
LONG_RUNS = 15
HEALED_S = 10.0
ANSWER_S = 20.0
SEED = 20_261_128
ALARMS = (
    "is gone from this broker",
    "may have records that other replicas have lost",
    "may be lost",
    "reconciled:",
    "bug in pybroker",
)
"""Phrases in brokers' logs that would be wrong in this test: no topic has a record when the controller dies, and no
order is lost."""


class _Churn(threading.Thread):
    """One client of one round. It never repeats a request whose response was lost."""

    def __init__(self, name: str, ports: Mapping[int, int], seed: int) -> None:
        super().__init__(daemon=True, name=name)
        self._ports = list(ports.values())
        self._random = random.Random(seed)
        self.asked = 0

    def run(self) -> None:
        for number in range(TOPICS):
            name = f"{self.name}-{number}"
            self._ask(lambda lives, name=name: lives.try_create(name, 1, replicas=3))  # type: ignore[misc]
            self._ask(lambda lives, name=name: lives.delete(name))  # type: ignore[misc]
            self.asked += 1

    def _ask(self, what: Callable[[LivesAt], Any]) -> None:
        with suppress(OSError, CodecError):
            what(LivesAt(self._random.choice(self._ports), ANSWER_S))


def _alarms(cluster: BrokerCluster) -> list[str]:
    return [
        line
        for broker in cluster.brokers.values()
        for line in broker.console.read_text(errors="replace").splitlines()
        if any(alarm in line for alarm in ALARMS)
    ]


def _one_round(cluster: BrokerCluster, name: str, chance: random.Random) -> None:
    brokers = Everywhere(cluster)
    ports = {broker_id: broker.port for broker_id, broker in cluster.brokers.items()}
    clients = [_Churn(f"{name}-client{number}", ports, chance.randrange(1 << 32)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    enough = chance.randrange(CLIENTS * TOPICS // 4, CLIENTS * TOPICS * 3 // 4)
    until(lambda: sum(client.asked for client in clients) >= enough)
    time.sleep(chance.random() * 0.05)
    killed = cluster.brokers[brokers.controller()]
    killed.kill()
    for client in clients:
        client.join(2 * ANSWER_S * TOPICS)
        assert not client.is_alive(), client.name
    killed.start()
    until(lambda: all(brokers.live(number) == set(ports) for number in ports))
    assert all_take_a_record(ports, at=killed.broker_id, patience_s=HEALED_S) == {}


def _rounds(folder: Path, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    with running_cluster(folder) as cluster:
        for number in range(rounds):
            _one_round(cluster, f"round{number}", chance)
        assert _alarms(cluster) == []


def test_every_topic_that_is_left_takes_records(tmp_path: Path) -> None:
    _rounds(tmp_path, SEED, SHORT_ROUNDS)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("run", range(LONG_RUNS))
def test_every_topic_that_is_left_takes_records_in_many_runs(tmp_path: Path, run: int) -> None:
    _rounds(tmp_path, SEED + 1 + run, ROUNDS)


@pytest.mark.checklist("R32")
def test_a_controller_that_dies_before_it_decides_leaves_no_topic_closed(tmp_path: Path) -> None:
    """DeleteTopics fences the topic on all brokers. The controller is killed before its decision: the next one does not
    know of the fence, and the topic stays."""
    with running_cluster(tmp_path, module=("tests.cluster.loses_orders", str(tmp_path))) as cluster:
        brokers = Everywhere(cluster)
        controller = brokers.controller()
        leader = min({1, 2, 3} - {controller})
        brokers.at(leader).create_on("stays", [leader, 6 - leader - controller])
        brokers.written("stays", "before", leader)
        flag(tmp_path, CLOSED, controller).touch()
        with pytest.raises(ConnectionError):
            brokers.at(controller).delete("stays")
        until(lambda: not cluster.brokers[controller].running)
        brokers.controller(leader)
        ports = {number: broker.port for number, broker in cluster.brokers.items() if broker.running}
        assert all_take_a_record(ports, at=leader, patience_s=HEALED_S) == {}
        assert brokers.at(leader).ends("stays") == (0, 2)
        assert _alarms(cluster) == []
