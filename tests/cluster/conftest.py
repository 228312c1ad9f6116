"""Clusters to test against, on both metadata stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, running_cluster
from tests.support.stores import clusters_on

LATER = {
    "test_clients": "not run with a quorum yet",
    "test_ingest_trouble": "two of three brokers end, and the tests behind it find no controller",
    "test_overwritten": "passes, but took 270 s",
    "test_power_cuts": "not run with a quorum yet",
    "test_roundtrip": "Spark takes 100 s",
    "test_suspect_replicas": "a broker that is alone after a power cut must decide",
}
"""File → why its tests run with a quorum only in `make test-slow`, and on ZooKeeper in `make test`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with a metadata quorum, and in slow runs also on ZooKeeper. A test with `only_on_zookeeper` runs
    only on ZooKeeper."""
    only = metafunc.definition.get_closest_marker("only_on_zookeeper")
    assert only is None or (only.args and isinstance(only.args[0], str)), "only_on_zookeeper has no reason"
    stores: list[Store] = ["quorum", "zookeeper"]
    if metafunc.module.__name__.rpartition(".")[2] in LATER:
        stores.reverse()
    slow = pytest.param(stores[1], marks=pytest.mark.slow)
    chosen = ["zookeeper"] if only is not None else [stores[0], slow]
    metafunc.parametrize("store", chosen, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Return the metadata store of the test's clusters."""
    chosen: Store = request.param
    with clusters_on(chosen):
        yield chosen


def survives_two_losses(store: Store) -> int:
    """Return the size of a cluster that still decides when two brokers are down: a quorum needs a majority."""
    return 5 if store == "quorum" else 3


@pytest.fixture
def cluster(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three running brokers."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), store=store) as running:
        yield running
