"""Features of the cluster and their finalized levels (KIP-584), in the znode of Kafka on ZooKeeper:

    /feature        {"version":2,"status":1,"features":{"group.version":1}}

A feature that was never finalized has its highest level. Level 0 disables a feature. Kafka omits a disabled feature
from the znode. pybroker writes it, because a missing feature means "never finalized".

In a metadata quorum the levels are FeatureLevelRecords. The quorum's first controller finalizes all features, among
them metadata.version, the version of the records that brokers write. Only a metadata quorum has metadata.version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
"""Level 2: each transaction has its own producer epoch, and a partition is added to the transaction when the producer
writes to it (KIP-890). Level 1 has no effect in pybroker; in Kafka it is a storage format."""

HIGHEST: Mapping[str, int] = {GROUP_VERSION: 1, SHARE_VERSION: 2, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2}
"""All features; the lowest level is 0 (`native/server/src/api/k18_api_versions.rs` has the same list for clients)."""

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
"""Level 1: voters have directory ids, and the log contains the set of voters (KIP-853). pybroker has no other level."""

_VERSION, _ENABLED = 2, 1


class FeatureRange(msgspec.Struct, frozen=True):
    """The levels of a feature that a broker supports."""

    name: str
    lowest: int
    highest: int

    def __contains__(self, level: int) -> bool:
        return self.lowest <= level <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest} to {self.highest}"


METADATA_VERSIONS = FeatureRange(METADATA_VERSION, 30, 33)
"""The levels of metadata.version that this release reads and writes, with Kafka's numbers: 33 is 4.4-IV2. The lowest
level is the level of logs whose levels were never finalized. `k18_api_versions.rs` has the same levels for clients."""


def broker_features() -> tuple[FeatureRange, ...]:
    """Return the features that a broker registers."""
    return (METADATA_VERSIONS,)


def range_of(features: Iterable[FeatureRange]) -> FeatureRange:
    """Return the range of metadata.version in a registration. Without such a range, the broker supports only the lowest
    level.
    """
    lowest = METADATA_VERSIONS.lowest
    unknown = FeatureRange(METADATA_VERSION, lowest, lowest)
    return next((feature for feature in features if feature.name == METADATA_VERSION), unknown)


class FeaturesImage(msgspec.Struct, frozen=True):
    """The finalized levels."""

    levels: Mapping[str, int] = {}
    version: int = -1
    """Version of the znode; -1 if it does not exist."""

    @property
    def epoch(self) -> int:
        """The epoch of the levels; it increases with each change."""
        return self.version + 1

    def level(self, name: str) -> int:
        """Return the effective level of a feature."""
        return self.levels[name] if name in self.levels else HIGHEST[name]

    @property
    def metadata_version(self) -> int | None:
        """The level of metadata.version; None before it is finalized, and with a metadata store."""
        return self.levels.get(METADATA_VERSION)

    @property
    def shown(self) -> Mapping[str, int]:
        """Return the levels that clients see. In a metadata quorum they include kraft.version."""
        return self.levels if self.metadata_version is None else {**self.levels, KRAFT_VERSION: 1}

    @property
    def unknown_level(self) -> str | None:
        """Return an error message if this release does not support the level of metadata.version; otherwise None."""
        level = self.metadata_version
        if level is None or level in METADATA_VERSIONS:
            return None
        return (
            f"the cluster is at level {level} of {METADATA_VERSION}, and this release supports {METADATA_VERSIONS}: "
            "start this broker with a release that supports the level"
        )


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Return the content of the znode."""
    return msgspec.json.encode({"version": _VERSION, "status": _ENABLED, "features": dict(sorted(levels.items()))})


class _Json(msgspec.Struct):
    features: dict[str, int] = {}


def load_features(node: Node | None) -> FeaturesImage:
    """Return the levels of the features that this release knows. Raises DamagedNodeError."""
    if node is None:
        return FeaturesImage()
    content: _Json = decode_json(FEATURES, node.data, _Json)
    for name, level in content.features.items():
        if name in HIGHEST and not 0 <= level <= HIGHEST[name]:
            raise DamagedNodeError(f"{FEATURES}: {name} has levels 0 to {HIGHEST[name]} here, not {level}")
    return FeaturesImage({name: level for name, level in content.features.items() if name in HIGHEST}, node.version)
