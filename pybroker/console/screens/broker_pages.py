"""Pages for brokers, their disks and settings."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from pybroker.client import ConfigResource, LogDirDescription
from pybroker.console.queries.fragments import PART_S, Fragment, fragment, fragments
from pybroker.console.screens.overview import BrokerRow, broker_disks
from pybroker.console.screens.topic_pages import SOURCES
from pybroker.console.web.request_context import InputError, NotFoundError, PageContext

REPLICAS_SHOWN = 50
"""Number of replicas shown for a log directory; they are the largest."""


async def show(context: PageContext) -> Response:
    """Show all brokers with their disks."""
    cluster = await context.admin.describe_cluster()
    nodes = sorted(cluster.nodes)
    disks = await asyncio.gather(*(fragment(broker_disks(context.admin, node.id), PART_S) for node in nodes))
    rows = [BrokerRow(node, node == cluster.controller, found) for node, found in zip(nodes, disks, strict=True)]
    return context.render("brokers.html", brokers=rows)


async def one(context: PageContext) -> Response:
    """Show a broker's disks, largest replicas and settings; `q`: text in the names of the settings."""
    text = context.path("id")
    if not text.isdecimal() or len(text) > 10:
        raise InputError(f"{text[:40]} is not a broker id.")
    broker = int(text)
    cluster = await context.admin.describe_cluster()
    node = next((each for each in cluster.nodes if each.id == broker), None)
    if node is None:
        raise NotFoundError(f"Broker {broker} is not running.")
    resource = ConfigResource.broker(broker)
    dirs, configs = await fragments(
        context.admin.describe_log_dirs([broker]), context.admin.describe_configs([resource]).all()
    )
    query, changed = context.query.text("q").lower(), bool(context.query.text("changed"))
    entries = [
        entry
        for entry in sorted((configs.value or {}).get(resource, {}).values(), key=lambda each: each.name)
        if query in entry.name.lower() and not (changed and entry.is_default)
    ]
    return context.render(
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


def _largest(dirs: Fragment[dict[int, dict[str, LogDirDescription]]], broker: int) -> list[dict[str, object]]:
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
