"""pytest plugin: the fixtures `pybroker` (a broker for one test), `pybroker_session` (one for all tests) and
`pybroker_cluster` (three brokers for one test).

    def test_roundtrip(pybroker):
        producer = Producer({"bootstrap.servers": pybroker.bootstrap})

    @pytest.mark.pybroker({"num.partitions": 3})      # settings of this test's broker
    def test_three_partitions(pybroker): ...

    @pytest.mark.pybroker_cluster(brokers=5, settings={"num.partitions": 3})
    def test_a_leader_is_lost(pybroker_cluster):
        pybroker_cluster.kill(1)

The report of a failed test contains the end of the broker's output. Every pytest run in an environment with pybroker
loads this plugin: it therefore imports nothing before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pybroker.testing.broker import Broker
    from pybroker.testing.cluster import Cluster

_BROKERS = pytest.StashKey[list["Broker"]]()
_CLUSTER = pytest.StashKey["Cluster"]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line(
        "markers", "pybroker(settings): broker settings, under Kafka's names, for the fixture `pybroker`"
    )
    config.addinivalue_line(
        "markers",
        "pybroker_cluster(brokers=3, settings=None, racks=(), store='quorum'): arguments of the fixture "
        "`pybroker_cluster`",
    )


@pytest.fixture
def pybroker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running broker for one test, with fresh data; settings by `@pytest.mark.pybroker({...})`."""
    from pybroker.testing.broker import Broker

    marker = request.node.get_closest_marker("pybroker")
    with Broker(marker.args[0] if marker and marker.args else None) as broker:
        request.node.stash[_BROKERS] = [broker]
        yield broker


@pytest.fixture(scope="session")
def pybroker_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One running broker for all tests that can share it."""
    from pybroker.testing.broker import Broker

    with Broker() as broker:
        request.session.stash[_BROKERS] = [broker]
        yield broker


@pytest.fixture
def pybroker_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster for one test, with fresh data; arguments by `@pytest.mark.pybroker_cluster(...)`."""
    from pybroker.testing.cluster import Cluster

    marker = request.node.get_closest_marker("pybroker_cluster")
    with Cluster(*(marker.args if marker else ()), **(marker.kwargs if marker else {})) as cluster:
        request.node.stash[_CLUSTER] = cluster
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the broker's output to the report of a failed test."""
    report = yield
    if report.failed:
        fixtures = getattr(item, "fixturenames", ())
        for broker in item.stash.get(_BROKERS, []) if "pybroker" in fixtures else []:
            report.sections.append(("pybroker log", broker.log_tail()))
        for broker in item.session.stash.get(_BROKERS, []) if "pybroker_session" in fixtures else []:
            report.sections.append(("pybroker_session log", broker.log_tail()))
        cluster = item.stash.get(_CLUSTER, None)
        if cluster is not None:
            report.sections.append(("pybroker_cluster logs", cluster.log_tail()))
    return report
