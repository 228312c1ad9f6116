"""What a broker can say of how the cluster is."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.admin.cluster import ClusterAdmin
from pybroker.admin.conditions import Conditions
from pybroker.metadata.session import StoreSession


class ClusterState(NamedTuple):
    """As one broker sees it."""

    broker_id: int
    """Whose view this is."""
    cluster: ClusterAdmin
    conditions: Conditions
    session: StoreSession
    """With the metadata store."""
