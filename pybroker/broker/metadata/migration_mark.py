"""`/migration`: this ZooKeeper has, or is getting, the metadata of a broker that was alone.

While it is COPYING no broker starts on it: what is not there yet would be taken for deleted.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.store import MetadataStore, Node, get_or_none
from pybroker.broker.metadata.znodes import decode_json
from pybroker.errors import StartError

PATH = "/migration"
COPYING = "copying"
DONE = "done"


class Mark(msgspec.Struct):
    """migration: a random word, which the seal of the source has, too."""

    migration: str
    cluster_id: str
    state: str
    version: int = 1

    def encode(self) -> bytes:
        """The node's value."""
        return msgspec.json.encode(self)


def decode_mark(node: Node) -> Mark:
    """Raises DamagedNodeError."""
    mark: Mark = decode_json(PATH, node.data, Mark)
    return mark


async def refuse_unfinished(store: MetadataStore) -> None:
    """Raises StartError while the copy is not whole; DamagedNodeError."""
    node = await get_or_none(store, PATH)
    if node is not None and decode_mark(node).state != DONE:
        raise StartError(
            "the metadata of a broker is being moved to this ZooKeeper and is not whole: run `pybroker metadata "
            "migrate --to zookeeper` again with that broker's settings"
        )
