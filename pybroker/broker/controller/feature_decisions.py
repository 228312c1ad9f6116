"""Decisions about feature levels (KIP-584). Pure.

In a metadata quorum, metadata.version can only rise, because the log may already contain records of the higher level.
"""

from __future__ import annotations

from pybroker.broker.cluster.events import FeatureChange, UpdateFeatures, UpgradeType
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.controller.internal_events import FinalizeFeatures
from pybroker.broker.metadata.feature_levels import (
    FEATURES,
    GROUP_VERSION,
    HIGHEST,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    SHARE_VERSION,
    STREAMS_VERSION,
    FeaturesImage,
    encode_features,
    range_of,
)
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta
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


@decides(FinalizeFeatures)
def decide_first_levels(image: ClusterImage, event: FinalizeFeatures) -> Decision:
    """Finalize the feature levels if the metadata log has no level of metadata.version. A new log gets the highest
    levels, and the users that were added before the first start. An existing log was written by an older release and
    gets the lowest level."""
    before = image.features
    if before.metadata_version is not None:
        return nothing(None)
    new = not (image.brokers or image.running or image.broker_epochs or image.names)
    levels = {**HIGHEST, **before.levels} if new else dict(before.levels)
    levels[METADATA_VERSION] = METADATA_VERSIONS.highest if new else METADATA_VERSIONS.lowest
    users = {name: ConfigImage(credentials, 0) for name, credentials in event.users.items()} if new else {}
    return Decision((), ImageDelta(features=FeaturesImage(levels, before.version + 1), users=users), None)


def _check(image: ClusterImage, change: FeatureChange) -> None:
    name, level = change.name, change.level
    if image.features.metadata_version is not None:
        if name == METADATA_VERSION:
            _check_metadata_version(image, image.features.metadata_version, change)
            return
        if name == KRAFT_VERSION:
            raise _invalid(f"Feature {name} is at level 1, the only one of this release.")
    if name not in HIGHEST:
        known = ", ".join((*HIGHEST, *(name for name in image.features.shown if name not in HIGHEST)))
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


def _check_metadata_version(image: ClusterImage, now: int, change: FeatureChange) -> None:
    name, level = change.name, change.level
    if level < now:
        raise _invalid(
            f"Feature {name} is at level {now} and cannot be downgraded: the metadata log may have records that level "
            f"{level} does not know."
        )
    if level not in METADATA_VERSIONS:
        raise _invalid(f"The controller supports levels {METADATA_VERSIONS} of {name}, not {level}.")
    if level > now and change.upgrade != UpgradeType.UPGRADE:
        raise _invalid(f"Feature {name} is at level {now}: {level} is not a downgrade.")
    for broker in image.brokers.values():
        supported = range_of(broker.features)
        if level not in supported:
            raise _invalid(
                f"Broker {broker.broker_id} supports levels {supported} of {name}, not {level}. Upgrade it first."
            )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
