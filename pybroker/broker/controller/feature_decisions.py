"""Decisions about feature levels (KIP-584). Pure."""

from __future__ import annotations

from pybroker.broker.cluster.events import FeatureChange, UpdateFeatures, UpgradeType
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.metadata.feature_levels import (
    FEATURES,
    GROUP_VERSION,
    HIGHEST,
    SHARE_VERSION,
    STREAMS_VERSION,
    FeaturesImage,
    encode_features,
)
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import Create, Set
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


@decides(UpdateFeatures)
def decide_update_features(image: ClusterImage, event: UpdateFeatures) -> Decision:
    """Change all features or none (KIP-1022). Raises KafkaError INVALID_UPDATE_VERSION."""
    before = image.features
    for change in event.changes:
        _check(image, change)
    levels = {**before.levels, **{change.name: change.level for change in event.changes}}
    if event.validate_only or all(before.level(change.name) == change.level for change in event.changes):
        return nothing(None)
    data = encode_features(levels)
    operation = Create(FEATURES, data) if before.version < 0 else Set(FEATURES, data, before.version)
    return Decision((operation,), ImageDelta(features=FeaturesImage(levels, before.version + 1)), None)


def _check(image: ClusterImage, change: FeatureChange) -> None:
    name, level = change.name, change.level
    if name not in HIGHEST:
        known = ", ".join(HIGHEST)
        raise _invalid(f"There is no feature {name!r}; this broker has: {known}.")
    if not 0 <= level <= HIGHEST[name]:
        raise _invalid(f"Feature {name} has levels 0 to {HIGHEST[name]}, not {level}.")
    now = image.features.level(name)
    if level < now and change.upgrade == UpgradeType.UPGRADE:
        raise _invalid(f"Feature {name} is at level {now}: {level} is a downgrade. Request it as a downgrade.")
    if level > now and change.upgrade != UpgradeType.UPGRADE:
        raise _invalid(f"Feature {name} is at level {now}: {level} is not a downgrade.")
    if name in (GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION) and level > 0 and not image.topic_ids:
        raise _invalid(f"Feature {name} needs topic ids: inter.broker.protocol.version is below 2.8.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
