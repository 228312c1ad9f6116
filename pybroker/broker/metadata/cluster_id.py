"""The cluster id (KIP-78): read it, or make it, or read what another broker made in the meantime."""

from __future__ import annotations

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.store import MetadataStore, NodeExistsError, ensure_path, get_or_none
from pybroker.native import Uuid


async def get_or_generate_cluster_id(store: MetadataStore) -> str:
    """Checklist 272–274: the first broker that creates the node decides; all others read."""
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
