"""Metrics of a cluster, under Kafka's names, while a broker is killed and returns."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.testing import Cluster
from pybroker.testing.cluster import ClusterBroker, Store
from tests.support.cluster import SESSION_MS, until

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "metrics.listener": "127.0.0.1:0",
    "leader.imbalance.check.interval.seconds": 1,
    "zookeeper.session.timeout.ms": SESSION_MS,
}
REPLICAS = "kafka_server_replicamanager"
CONTROLLER = "kafka_controller_kafkacontroller"
SESSION = "kafka_server_sessionexpirelistener"
SAMPLE = re.compile(r"^(\w+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(store: Store) -> Iterator[Cluster]:
    with Cluster(3, SETTINGS, store=store) as running:
        with blocking.AdminClient({"bootstrap.servers": running.bootstrap}) as admin:
            admin.create_topics([NewTopic("orders", replica_assignments={n: _from(n) for n in range(3)})]).all()
            admin.create_topics([NewTopic("alone", replica_assignments={0: [2]})]).all()
        running.settle()
        yield running


def _from(partition: int) -> list[int]:
    """Return the replicas 1, 2, 3, rotated so that each broker leads one partition."""
    return [(partition + step) % 3 + 1 for step in range(3)]


def address(broker: ClusterBroker) -> str:
    """Return the address of the metrics from the log of the broker's last start."""
    return re.findall(r"Metrics at (http://\S+)", Path(broker.log_path).read_text())[-1]


def scrape(broker: ClusterBroker) -> dict[str, float]:
    with urllib.request.urlopen(address(broker), timeout=60) as answer:
        return {name: float(value) for name, value in SAMPLE.findall(answer.read().decode())}


def total(cluster: Cluster, name: str) -> float:
    """Return the sum over all running brokers."""
    return sum(scrape(broker)[name] for broker in cluster.brokers.values() if broker.running)


def test_a_broker_is_killed_and_comes_back(cluster: Cluster) -> None:
    def all_are(name: str, expected: float) -> None:
        until(lambda: total(cluster, name) == expected)

    quiet = {
        f"{CONTROLLER}_activecontrollercount": 1,
        f"{CONTROLLER}_offlinepartitionscount": 0,
        f"{CONTROLLER}_preferredreplicaimbalancecount": 0,
        f"{CONTROLLER}_globaltopiccount": 2,
        f"{CONTROLLER}_globalpartitioncount": 4,
        f"{CONTROLLER}_activebrokercount": 3,
        f"{REPLICAS}_leadercount": 4,
        f"{REPLICAS}_partitioncount": 10,
        f"{REPLICAS}_underreplicatedpartitions": 0,
        f"{REPLICAS}_underminisrpartitioncount": 1,
        f"{REPLICAS}_atminisrpartitioncount": 0,
    }
    for name, expected in quiet.items():
        all_are(name, expected)
    until(lambda: cluster.controller in cluster.brokers)
    controller = cluster.brokers[cluster.controller or 0]
    figures = scrape(controller)
    assert figures[f"{CONTROLLER}_activecontrollercount"] == 1
    assert figures["kafka_controller_controllereventmanager_eventqueuetimems_count"] > 0
    assert figures["kafka_controller_controllereventmanager_eventqueueprocessingtimems_sum"] > 0
    until(lambda: scrape(controller)["kafka_controller_controllereventmanager_eventqueuesize"] == 0)
    before = {name: total(cluster, f"{REPLICAS}_{name}_total") for name in ("isrshrinks", "isrexpands")}

    cluster.kill(2)
    cluster.settle()
    all_are(f"{CONTROLLER}_offlinepartitionscount", 1)
    all_are(f"{CONTROLLER}_preferredreplicaimbalancecount", 2)
    all_are(f"{CONTROLLER}_activebrokercount", 2)
    all_are(f"{REPLICAS}_underreplicatedpartitions", 3)
    all_are(f"{REPLICAS}_atminisrpartitioncount", 3)
    all_are(f"{REPLICAS}_leadercount", 3)
    all_are(f"{CONTROLLER}_activecontrollercount", 1)
    assert total(cluster, f"{REPLICAS}_isrshrinks_total") > 0
    assert total(cluster, "kafka_controller_controllerstats_leaderelectionrateandtimems_count") > 0
    assert total(cluster, "pybroker_leader_elections_total") > 0

    cluster.start_broker(2)
    cluster.settle()
    # The preferred leader leads again without a request.
    for name, expected in quiet.items():
        all_are(name, expected)
    assert total(cluster, f"{REPLICAS}_isrexpands_total") > before["isrexpands"]
    assert total(cluster, "kafka_controller_controllerstats_uncleanleaderelections_total") == 0
    # A restarted broker has not fetched from any leader yet.
    until(lambda: scrape(cluster.brokers[2]).get('kafka_server_replicafetchermanager_maxlag{clientid="Replica"}') == 0)
    until(lambda: scrape(cluster.brokers[2]).get('kafka_server_fetcherstats_requests_total{leader="1"}', 0) > 0)


def test_the_table_of_names_is_true_of_a_cluster(cluster: Cluster, store: Store) -> None:
    """docs/metrics.md lists every metric that is shown, and every metric of clusters with this store is shown."""
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (\w*) ?\|", (ROOT / "docs/metrics.md").read_text(), re.M)
    of_clusters = {name for name, where in rows if where in ("cluster", store)}
    assert len(of_clusters) >= 10
    shown: set[str] = set()

    def all_are_shown() -> bool:
        for broker in cluster.brokers.values():
            with urllib.request.urlopen(address(broker), timeout=60) as answer:
                shown.update(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.M))
        return of_clusters <= shown

    until(all_are_shown)
    assert shown - {name for name, _ in rows} == set()


@pytest.mark.only_on_zookeeper("ZooKeeper's own: metrics of the session")
def test_the_session_with_zookeeper(cluster: Cluster) -> None:
    def all_are(state: str) -> bool:
        return total(cluster, f'{SESSION}_sessionstate{{state="{state}"}}') == 3

    until(lambda: all_are("CONNECTED"))
    broken = total(cluster, f"{SESSION}_zookeeperdisconnects_total")
    cluster.zookeeper.kill()
    until(lambda: all_are("SUSPENDED"))
    assert total(cluster, f"{SESSION}_zookeeperdisconnects_total") == broken + 3
    cluster.zookeeper.start()
    until(lambda: all_are("CONNECTED"))
