"""Clusters to test against, on both metadata stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, running_cluster
from tests.support.stores import clusters_on


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with a metadata quorum, and in slow runs also on ZooKeeper. A test with `only_on_zookeeper` runs
    only on ZooKeeper."""
    only = metafunc.definition.get_closest_marker("only_on_zookeeper")
    assert only is None or (only.args and isinstance(only.args[0], str)), "only_on_zookeeper has no reason"
    slow = pytest.param("zookeeper", marks=pytest.mark.slow)
    chosen = ["zookeeper"] if only is not None else ["quorum", slow]
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
