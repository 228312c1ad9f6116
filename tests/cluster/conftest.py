"""Clusters to test against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import BrokerCluster, running_cluster


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers that are up."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
