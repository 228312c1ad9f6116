"""`/migration`: marks a ZooKeeper if metadata is being moved, or has been moved, to it or from it.

| state | the metadata | brokers start on this ZooKeeper |
|---|---|---|
| COPYING | is being copied from a single broker | no: they would treat znodes that are still missing as deleted |
| DONE | was copied from a single broker | yes |
| LEAVING | is being copied to a metadata log | no: the copy would lack their changes |
| LEFT | has moved to a metadata log | no |
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.metadata_store import MetadataStore, Node, get_or_none
from pybroker.broker.metadata.znodes import decode_json
from pybroker.errors import StartError

PATH = "/migration"
COPYING = "copying"
DONE = "done"
LEAVING = "leaving"
LEFT = "left"


class Mark(msgspec.Struct):
    """The content of `/migration`. `migration`: a random word that the marker file of the source also contains."""

    migration: str
    cluster_id: str
    state: str
    version: int = 1
    broker_id: int = -1
    """The broker that gets the metadata log."""
    directory_id: str = ""
    """The id of the directory for the metadata log."""
    address: str = ""
    """The address at which this broker listens to brokers."""

    def encode(self) -> bytes:
        """Return the znode's value."""
        return msgspec.json.encode(self)


def decode_mark(node: Node) -> Mark:
    """Return the content of the znode. Raises DamagedNodeError."""
    mark: Mark = decode_json(PATH, node.data, Mark)
    return mark


async def refuse_unfinished(store: MetadataStore) -> None:
    """Raise StartError unless the metadata is in this ZooKeeper, DamagedNodeError if the znode is unreadable."""
    node = await get_or_none(store, PATH)
    mark = None if node is None else decode_mark(node)
    if mark is None or mark.state == DONE:
        return
    if mark.state == LEFT:
        raise StartError(
            f"the metadata of this cluster has moved from ZooKeeper to the metadata log of broker {mark.broker_id}. "
            f"Start that broker with metadata.store=quorum and without the settings of ZooKeeper, and all others also "
            f"with --join {mark.address}"
        )
    if mark.state == LEAVING:
        raise StartError(
            "the metadata of this cluster is being moved from ZooKeeper to a metadata log. Run `pybroker metadata "
            f"migrate --from zookeeper --to quorum` again with the settings of broker {mark.broker_id}, on its machine"
        )
    raise StartError(
        "a migration of a broker's metadata to this ZooKeeper is not complete. Run `pybroker metadata "
        "migrate --to zookeeper` again with that broker's settings"
    )
