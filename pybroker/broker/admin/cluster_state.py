"""The state of the cluster as one broker sees it, for health checks and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pybroker.broker.admin.cluster import ClusterAdmin
from pybroker.broker.admin.conditions import Conditions
from pybroker.broker.cluster.queue_metrics import QueueFigures
from pybroker.broker.metadata.store_session import StoreSession
from pybroker.broker.replicas.image_observers import ChangeFigures
from pybroker.broker.replicas.role_reconciler import Mismatch


class ClusterState(msgspec.Struct, frozen=True):
    """The objects that describe the cluster's state."""

    broker_id: int
    """The broker that has this view."""
    cluster: ClusterAdmin
    conditions: Conditions
    session: StoreSession
    """The session with the metadata store."""
    wrong_roles: Callable[[], Sequence[Mismatch]]
    """Partitions whose role on this broker differs from the published metadata and is not corrected yet."""


class Figures(msgspec.Struct, frozen=True):
    """Metrics of this broker since its start."""

    is_controller: Callable[[], bool]
    events_waiting: Callable[[], int]
    """Number of events that wait in this broker's controller."""
    queue: QueueFigures
    changes: ChangeFigures
    failed_isr_updates: Callable[[], int]
