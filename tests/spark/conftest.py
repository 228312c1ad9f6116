"""One Spark for the tests of this folder: starting it is what takes long. A limit of time that ends a test inside of a
call of Spark's leaves no session for the tests after it: it is far away.
"""

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
    """The limit for each test of this folder that has none of its own."""
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """With Spark's own connector beside pybroker's; a failed task is retried, as on a cluster."""
    session = roundtrip_spark.session(connector.connector_jars(), master="local[2,4]")
    yield session
    session.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    _names.append(request.node.name)
    safe = "".join(letter if letter.isalnum() else "-" for letter in request.node.originalname)
    return f"{safe}-{len(_names)}"[-200:]


_names: list[str] = []


@pytest.fixture
def jobs(spark: SparkSession, broker: BrokerProcess) -> Jobs:
    """Reads and writes through both connectors."""
    return Jobs(spark, broker.bootstrap)
