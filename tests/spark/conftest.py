"""One Spark session for the tests of this folder, because starting it takes long. If a time limit ended a test inside a
call of Spark, the session would be lost for later tests, so the limit is long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.roundtrip import connector
from examples.roundtrip import spark as roundtrip_spark
from tests.spark.jobs import Jobs
from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LIMIT_S = 900
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the time limit of each test of this folder that has none of its own."""
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """A Spark session with Spark's own connector and pybroker's. A failed task is retried, as on a cluster."""
    session = roundtrip_spark.session(connector.connector_jars(), master="local[2,4]")
    yield session
    session.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name for one test."""
    _names.append(request.node.name)
    safe = "".join(letter if letter.isalnum() else "-" for letter in request.node.originalname)
    return f"{safe}-{len(_names)}"[-200:]


_names: list[str] = []


@pytest.fixture
def jobs(spark: SparkSession, broker: BrokerProcess) -> Jobs:
    """Reads and writes through both connectors."""
    return Jobs(spark, broker.bootstrap)
