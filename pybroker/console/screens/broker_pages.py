"""Pages for brokers, their disks and settings."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from pybroker.client import ConfigResource, LogDirDescription
from pybroker.console.queries.fragments import PART_S, FactPart, part, parts
from pybroker.console.screens.overview import BrokerRow, broker_disks
from pybroker.console.screens.topic_pages import SOURCES
from pybroker.console.web.request_context import InputError, NotFoundError, Visit

REPLICAS_SHOWN = 50
"""Number of the largest replicas shown for a log directory."""


async def show(visit: Visit) -> Response:
    """Show all brokers with their disks."""
    cluster = await visit.admin.describe_cluster()
    nodes = sorted(cluster.nodes)
    disks = await asyncio.gather(*(part(broker_disks(visit.admin, node.id), PART_S) for node in nodes))
    rows = [BrokerRow(node, node == cluster.controller, found) for node, found in zip(nodes, disks, strict=True)]
    return visit.render("brokers.html", brokers=rows)


async def one(visit: Visit) -> Response:
    """Show a broker's disks, largest replicas and settings; `q`: text in the names of the settings."""
    text = visit.path("id")
    if not text.isdecimal() or len(text) > 10:
        raise InputError(f"{text[:40]} is not a broker id.")
    broker = int(text)
    cluster = await visit.admin.describe_cluster()
    node = next((each for each in cluster.nodes if each.id == broker), None)
    if node is None:
        raise NotFoundError(f"Broker {broker} is not running.")
    resource = ConfigResource.broker(broker)
    dirs, configs = await parts(visit.admin.describe_log_dirs([broker]), visit.admin.describe_configs([resource]).all())
    query, changed = visit.query.text("q").lower(), bool(visit.query.text("changed"))
    entries = [
        entry
        for entry in sorted((configs.value or {}).get(resource, {}).values(), key=lambda each: each.name)
        if query in entry.name.lower() and not (changed and entry.is_default)
    ]
    return visit.render(
        "broker.html",
        node=node,
        is_controller=node == cluster.controller,
        dirs=_largest(dirs, broker),
        failure=dirs.problem,
        entries=entries,
        configs=configs,
        sources=SOURCES,
        q=query,
        changed=changed,
    )


def _largest(dirs: FactPart[dict[int, dict[str, LogDirDescription]]], broker: int) -> list[dict[str, object]]:
    """Return each directory with its largest replicas."""
    return [
        {
            "path": path,
            "offline": each.error_code != 0,
            "total": each.total_bytes,
            "usable": each.usable_bytes,
            "count": len(each.replicas),
            "bytes": sum(replica.size for replica in each.replicas.values()),
            "largest": sorted(each.replicas.items(), key=lambda item: -item[1].size)[:REPLICAS_SHOWN],
        }
        for path, each in sorted((dirs.value or {}).get(broker, {}).items())
    ]
