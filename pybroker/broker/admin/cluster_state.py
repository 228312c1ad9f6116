"""What a broker can say of how the cluster is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pybroker.broker.admin.cluster import ClusterAdmin
from pybroker.broker.admin.conditions import Conditions
from pybroker.broker.cluster.queue_figures import QueueFigures
from pybroker.broker.metadata.session import StoreSession
from pybroker.broker.replicas.change_figures import ChangeFigures
from pybroker.broker.replicas.roles import Mismatch


class ClusterState(msgspec.Struct, frozen=True):
    """As one broker sees it."""

    broker_id: int
    """Whose view this is."""
    cluster: ClusterAdmin
    conditions: Conditions
    session: StoreSession
    """With the metadata store."""
    wrong_roles: Callable[[], Sequence[Mismatch]]
    """Partitions here that do not do what clients read of them, and are not mended yet."""


class Figures(msgspec.Struct, frozen=True):
    """What has happened on this broker since its start."""

    is_controller: Callable[[], bool]
    events_waiting: Callable[[], int]
    """For this broker's controller."""
    queue: QueueFigures
    changes: ChangeFigures
    failed_isr_updates: Callable[[], int]
