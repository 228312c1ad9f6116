"""The nodes of the metadata store as documents. The document of a node without secrets contains its value; the document
of any other node contains only the length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pybroker.broker.metadata.metadata_store import MetadataStore, Node, get_or_none
from pybroker.broker.metadata.quota_nodes import CLIENT_CONFIGS, IP_CONFIGS, OF_ADDRESSES, OF_CLIENTS, USER_CONFIGS
from pybroker.broker.observability.diagnosis.redaction import HIDDEN, may_be_shown

ROOTS = (
    "/cluster",
    "/brokers",
    "/controller",
    "/controller_epoch",
    "/controller_decisions",
    "/controller_offices",
    "/config",
    "/admin",
    "/ingest",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-extended",
    "/latest_producer_id_block",
)
"""The paths to read. They include neither delegation tokens nor nodes of other applications in the same ZooKeeper."""

QUOTAS = OF_CLIENTS.keys() | OF_ADDRESSES.keys()
_QUOTAS_BELOW = (USER_CONFIGS, CLIENT_CONFIGS, IP_CONFIGS)
"""Nodes of users have quotas and SCRAM credentials."""

NODES_MAX = 100_000
VALUE_BYTES_MAX = 64 << 10


async def read(store: MetadataStore) -> dict[str, Node]:
    """Return all shown nodes by path. Raises StoreError."""
    found: dict[str, Node] = {}
    for root in ROOTS:
        node = await get_or_none(store, root)
        if node is not None:
            found[root] = node
            found.update(await store.subtree(root))
    return found


def document(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """Return path → value, version and times. If there are more than NODES_MAX nodes, return only the number of the
    remaining nodes."""
    some = sorted(nodes)[:NODES_MAX]
    return {"left_out": len(nodes) - len(some), "nodes": {path: _node(path, nodes[path]) for path in some}}


def _node(path: str, node: Node) -> dict[str, Any]:
    about = {"version": node.version, "changed_zxid": node.changed_zxid, "created_ms": node.created_ms}
    if node.ephemeral_owner:
        about["ephemeral_owner"] = node.ephemeral_owner
    return {**about, **_value(path, node.data)}


def _value(path: str, data: bytes) -> dict[str, Any]:
    if not data:
        return {}
    try:
        value = json.loads(data) if len(data) <= VALUE_BYTES_MAX else None
    except ValueError:
        value = None
    if value is None:
        return {"bytes": len(data)}
    if path.startswith("/config/"):
        value = _without_secrets(path, value)
    return {"value": value}


def _without_secrets(path: str, value: Any) -> Any:
    config = value.get("config") if isinstance(value, dict) else None
    if not isinstance(config, dict):
        return HIDDEN
    of_quotas = any(path.startswith(f"{each}/") for each in _QUOTAS_BELOW)
    kept = {
        name: text if (name in QUOTAS if of_quotas else may_be_shown(name)) else HIDDEN
        for name, text in config.items()
    }
    return {"config": kept}
