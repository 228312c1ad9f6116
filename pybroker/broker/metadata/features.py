"""Features of the cluster and their finalized levels (KIP-584), in the node that Kafka on ZooKeeper has for them:

    /feature        {"version":2,"status":1,"features":{"group.version":1}}

A feature that was never finalized is at its highest level. Level 0 is without it; Kafka leaves the feature out then,
which would be the same as never here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.metadata.store import Node
from pybroker.broker.metadata.znodes import DamagedNodeError, decode_json

FEATURES = "/feature"

GROUP_VERSION = "group.version"
"""1: groups of the newer protocol (KIP-848). They need topic ids."""

SHARE_VERSION = "share.version"
"""1: share groups (KIP-932). They need topic ids. 2: with dead letter queues (KIP-1191)."""

STREAMS_VERSION = "streams.version"
"""1: streams groups (KIP-1071). They need topic ids."""

TRANSACTION_VERSION = "transaction.version"
"""2: producers have another epoch for each transaction, and what they write to becomes part of it (KIP-890). 1 is as 0
here: in Kafka it is a format of what is stored."""

HIGHEST: Mapping[str, int] = {GROUP_VERSION: 1, SHARE_VERSION: 2, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2}
"""All that there are; the lowest level is 0 (`native/server/src/api/k18_api_versions.rs` tells clients the same)."""

_VERSION, _ENABLED = 2, 1


class FeaturesImage(msgspec.Struct, frozen=True):
    """What is finalized."""

    levels: Mapping[str, int] = {}
    version: int = -1
    """Of the node; -1: there is none."""

    @property
    def epoch(self) -> int:
        """Grows with each change."""
        return self.version + 1

    def level(self, name: str) -> int:
        """The level in force of a feature that there is."""
        return self.levels.get(name, HIGHEST[name])


def encode_features(levels: Mapping[str, int]) -> bytes:
    """The node's data."""
    return msgspec.json.encode({"version": _VERSION, "status": _ENABLED, "features": dict(sorted(levels.items()))})


class _Json(msgspec.Struct):
    features: dict[str, int] = {}


def load_features(node: Node | None) -> FeaturesImage:
    """Levels that this version of pybroker does not have are left out. Raises DamagedNodeError."""
    if node is None:
        return FeaturesImage()
    content: _Json = decode_json(FEATURES, node.data, _Json)
    for name, level in content.features.items():
        if name in HIGHEST and not 0 <= level <= HIGHEST[name]:
            raise DamagedNodeError(f"{FEATURES}: {name} has levels 0 to {HIGHEST[name]} here, not {level}")
    return FeaturesImage({name: level for name, level in content.features.items() if name in HIGHEST}, node.version)
