"""The cluster id (KIP-78): read it, create it, or read the one that another broker has just created."""

from __future__ import annotations

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.store import MetadataStore, NodeExistsError, ensure_path, get_or_none
from pybroker.native import Uuid


async def get_or_generate_cluster_id(store: MetadataStore) -> str:
    """Return the cluster id. The first broker that creates the node decides; all others read it."""
    node = await get_or_none(store, znodes.CLUSTER_ID)
    if node is None:
        await ensure_path(store, "/cluster")
        generated = str(Uuid.random())
        try:
            await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(generated))
            return generated
        except NodeExistsError:
            node = await store.get(znodes.CLUSTER_ID)
    return znodes.decode_cluster_id(node.data)
