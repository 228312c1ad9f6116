"""A client's metrics, under the names of Kafka's clients, with the id of its cluster (KIP-78)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from pybroker.cluster_resource import ClusterResource, ClusterResourceListener


class ClientMetrics(ClusterResourceListener, Mapping[str, float]):
    """Metric name → value; counters only grow. The labels are `cluster_id` and `client_id`.

    The client updates the metrics on its loop; any thread may read them.
    """

    def __init__(self, client_id: str, names: tuple[str, ...]) -> None:
        self.client_id = client_id
        self.cluster_id: str | None = None
        self.started_at = time.time()
        self._values = dict.fromkeys(names, 0.0)

    def on_update(self, cluster_resource: ClusterResource) -> None:
        self.cluster_id = cluster_resource.cluster_id

    def add(self, name: str, by: float = 1) -> None:
        """Add to a counter."""
        self._values[name] += by

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def tags(self) -> dict[str, str]:
        """Return the labels, for monitoring systems."""
        return {"client-id": self.client_id, "cluster-id": self.cluster_id or ""}


PRODUCER_METRICS = (
    "record-send-total",
    "record-error-total",
    "record-retry-total",
    "batch-split-total",
    "request-total",
    "byte-total",
)
CONSUMER_METRICS = (
    "records-consumed-total",
    "bytes-consumed-total",
    "fetch-total",
    "commit-total",
    "rebalance-total",
    "failed-rebalance-total",
)
SHARE_CONSUMER_METRICS = (
    "records-consumed-total",
    "bytes-consumed-total",
    "fetch-total",
    "acknowledgements-send-total",
    "acknowledgements-error-total",
    "rebalance-total",
)
