"""`/migration`: marks a ZooKeeper to which the metadata of a single broker is being moved, or has been moved.

While it says COPYING, no broker starts on this ZooKeeper: it would treat znodes that are still missing as deleted.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.metadata_store import MetadataStore, Node, get_or_none
from pybroker.broker.metadata.znodes import decode_json
from pybroker.errors import StartError

PATH = "/migration"
COPYING = "copying"
DONE = "done"


class Mark(msgspec.Struct):
    """The content of `/migration`. `migration`: a random word that the marker file of the source also contains."""

    migration: str
    cluster_id: str
    state: str
    version: int = 1

    def encode(self) -> bytes:
        """Return the znode's value."""
        return msgspec.json.encode(self)


def decode_mark(node: Node) -> Mark:
    """Return the content of the znode. Raises DamagedNodeError."""
    mark: Mark = decode_json(PATH, node.data, Mark)
    return mark


async def refuse_unfinished(store: MetadataStore) -> None:
    """Raise StartError if the copy is incomplete, DamagedNodeError if the znode is unreadable."""
    node = await get_or_none(store, PATH)
    if node is not None and decode_mark(node).state != DONE:
        raise StartError(
            "a migration of a broker's metadata to this ZooKeeper is not complete. Run `pybroker metadata "
            "migrate --to zookeeper` again with that broker's settings"
        )
