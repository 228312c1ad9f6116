"""The overview page of the cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.responses import Response

from pybroker.client import AdminClient, Node
from pybroker.console.queries.cluster_activity import LAG
from pybroker.console.queries.fragments import PART_S, Fragment, fragment, fragments
from pybroker.console.screens.throughput_page import tiles
from pybroker.console.web.request_context import PageContext

BROKERS_MAX = 50
"""Limit of brokers whose disks this page queries."""
LAGS_SHOWN = 5
DELETIONS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory."""

    path: str
    offline: bool
    total: int
    usable: int

    @property
    def used_percent(self) -> int | None:
        """Used part of the file system; None if the broker does not report it."""
        return None if self.total <= 0 else round(100 * (self.total - self.usable) / self.total)


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A live broker and its disks."""

    node: Node
    is_controller: bool
    disks: Fragment[list[Disk]]


async def show(context: PageContext) -> Response:
    """Show cluster id, health, activity, deletions that can be undeleted, and brokers."""
    cluster = await context.admin.describe_cluster()
    state, deletions, _ = await fragments(
        context.admin.describe_cluster_state(), context.admin.describe_deletions(), context.history.look()
    )
    nodes = sorted(cluster.nodes)[:BROKERS_MAX]
    disks = await asyncio.gather(*(fragment(broker_disks(context.admin, node.id), PART_S) for node in nodes))
    rows = [BrokerRow(node, node == cluster.controller, found) for node, found in zip(nodes, disks, strict=True)]
    more = len(cluster.nodes) - len(rows)
    latest = sorted(deletions.value or (), key=lambda each: -each.deleted_ms)
    details = context.history.last.details
    return context.render(
        "overview.html",
        cluster=cluster,
        state=state,
        deletions=deletions,
        latest=[each for each in latest if each.state in ("deleting", "staged")][:DELETIONS_SHOWN],
        curves=tiles(context.history, by_metrics=bool(context.console.settings.metrics_urls)),
        lags=details.get(LAG),
        lags_shown=LAGS_SHOWN,
        brokers=rows,
        more=more,
    )


async def broker_disks(admin: AdminClient, broker: int) -> list[Disk]:
    """Return a broker's log directories without their replicas."""
    dirs = (await admin.describe_log_dirs([broker], partitions=()))[broker]
    return [
        Disk(path, each.error_code != 0, each.total_bytes, each.usable_bytes) for path, each in sorted(dirs.items())
    ]
