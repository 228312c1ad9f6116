"""Features of the cluster and their finalized levels (KIP-584), in the node of Kafka on ZooKeeper:

    /feature        {"version":2,"status":1,"features":{"group.version":1}}

A feature that was never finalized has its highest level. Level 0 disables a feature. Kafka then omits the feature from
the node; pybroker writes it, because a missing feature means "never finalized".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.metadata.metadata_store import Node
from pybroker.broker.metadata.znodes import DamagedNodeError, decode_json

FEATURES = "/feature"

GROUP_VERSION = "group.version"
"""1: consumer groups (KIP-848). They need topic ids."""

SHARE_VERSION = "share.version"
"""1: share groups (KIP-932). They need topic ids. 2: with dead letter queues (KIP-1191)."""

STREAMS_VERSION = "streams.version"
"""1: streams groups (KIP-1071). They need topic ids."""

TRANSACTION_VERSION = "transaction.version"
"""Level 2: each transaction has its own producer epoch, and a partition joins the transaction when the producer writes
to it (KIP-890). Level 1 has no effect here; in Kafka it is a storage format.
"""

HIGHEST: Mapping[str, int] = {GROUP_VERSION: 1, SHARE_VERSION: 2, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2}
"""All features; the lowest level is 0 (`native/server/src/api/k18_api_versions.rs` has the same list for clients)."""

_VERSION, _ENABLED = 2, 1


class FeaturesImage(msgspec.Struct, frozen=True):
    """The finalized levels."""

    levels: Mapping[str, int] = {}
    version: int = -1
    """Version of the node; -1 if there is none."""

    @property
    def epoch(self) -> int:
        """The epoch of the levels; it grows with each change."""
        return self.version + 1

    def level(self, name: str) -> int:
        """Return the effective level of a known feature."""
        return self.levels.get(name, HIGHEST[name])


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Return the node's data."""
    return msgspec.json.encode({"version": _VERSION, "status": _ENABLED, "features": dict(sorted(levels.items()))})


class _Json(msgspec.Struct):
    features: dict[str, int] = {}


def load_features(node: Node | None) -> FeaturesImage:
    """Return the levels of the features that this version knows. Raises DamagedNodeError."""
    if node is None:
        return FeaturesImage()
    content: _Json = decode_json(FEATURES, node.data, _Json)
    for name, level in content.features.items():
        if name in HIGHEST and not 0 <= level <= HIGHEST[name]:
            raise DamagedNodeError(f"{FEATURES}: {name} has levels 0 to {HIGHEST[name]} here, not {level}")
    return FeaturesImage({name: level for name, level in content.features.items() if name in HIGHEST}, node.version)
