"""The cluster at a glance."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.responses import Response

from pybroker.client import AdminClient, Node
from pybroker.console.facts.parts import Part, part, parts
from pybroker.console.web.visits import Visit

BROKERS_MAX = 50
"""Whose disks are asked for on this page."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory."""

    path: str
    offline: bool
    total: int
    usable: int

    @property
    def used_percent(self) -> int | None:
        """Of the file system; None where the broker does not say."""
        return None if self.total <= 0 else round(100 * (self.total - self.usable) / self.total)


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker that is there, and its disks."""

    node: Node
    is_controller: bool
    disks: Part[list[Disk]]


async def show(visit: Visit) -> Response:
    """Cluster id, brokers, health, deletions."""
    cluster = await visit.admin.describe_cluster()
    state, deletions = await parts(visit.admin.describe_cluster_state(), visit.admin.describe_deletions())
    nodes = sorted(cluster.nodes)[:BROKERS_MAX]
    disks = await asyncio.gather(*(part(broker_disks(visit.admin, node.id)) for node in nodes))
    rows = [BrokerRow(node, node == cluster.controller, found) for node, found in zip(nodes, disks, strict=True)]
    more = len(cluster.nodes) - len(rows)
    return visit.render(
        "overview.html", cluster=cluster, state=state, deletions=deletions, brokers=rows, more=more
    )


async def broker_disks(admin: AdminClient, broker: int) -> list[Disk]:
    """Its log directories without what is in them."""
    dirs = (await admin.describe_log_dirs([broker], partitions=()))[broker]
    return [
        Disk(path, each.error_code != 0, each.total_bytes, each.usable_bytes) for path, each in sorted(dirs.items())
    ]
