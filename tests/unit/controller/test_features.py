"""Feature levels are written once and read back unchanged; a request changes all of its features or none."""

from __future__ import annotations

import pytest

from pybroker.broker.cluster.events import FeatureChange, UpdateFeatures, UpgradeType
from pybroker.broker.controller.feature_decisions import decide_first_levels, decide_update_features
from pybroker.broker.controller.internal_events import FinalizeFeatures
from pybroker.broker.metadata.feature_levels import (
    FEATURES,
    GROUP_VERSION,
    HIGHEST,
    METADATA_VERSION,
    METADATA_VERSIONS,
    FeatureRange,
    FeaturesImage,
    load_features,
)
from pybroker.broker.metadata.image import BrokerImage, ClusterImage, ImageDelta
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.metadata_store import Create, Node, Set
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.errors import KafkaError

START = ClusterImage.initial(1)
DOWN = UpdateFeatures((FeatureChange(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE),))
UP = UpdateFeatures((FeatureChange(GROUP_VERSION, 1, UpgradeType.UPGRADE),))


def node(data: bytes, version: int = 0) -> Node:
    return Node(data, version, 1, 1, 100, 0)


def test_what_is_loaded_is_what_was_decided() -> None:
    assert START.features.level(GROUP_VERSION) == 1
    assert decide_update_features(START, UP).operations == (), "it is there"
    first = decide_update_features(START, DOWN)
    data = b'{"version":2,"status":1,"features":{"group.version":0}}'
    assert first.operations == (Create(FEATURES, data),)
    image = START.apply(first.delta)
    assert (image.features.level(GROUP_VERSION), image.features.epoch) == (0, 1)
    assert load_image(1, Nodes({}, {}, {}, features=node(data))).image.features == image.features
    second = decide_update_features(image, UP)
    assert second.operations == (Set(FEATURES, data.replace(b":0}", b":1}"), 0),)
    image = image.apply(second.delta)
    assert (image.features.level(GROUP_VERSION), image.features.epoch) == (1, 2)


def test_all_or_nothing() -> None:
    event = UpdateFeatures((*DOWN.changes, FeatureChange("other", 1, UpgradeType.UPGRADE)))
    with pytest.raises(KafkaError, match="no feature 'other'"):
        decide_update_features(START, event)


@pytest.mark.parametrize("data", [b"", b"{", b'{"features":{"group.version":2}}', b'{"features":{"group.version":-1}}'])
def test_what_cannot_be_read_leaves_everything_on(data: bytes) -> None:
    with pytest.raises(DamagedNodeError):
        load_features(node(data, 3))
    assert load_image(1, Nodes({}, {}, {}, features=node(data, 3))).image.features == FeaturesImage({}, 3)


def test_what_other_versions_have_is_left_out() -> None:
    assert load_features(node(b'{"version":2,"status":1,"features":{"other":7}}')) == FeaturesImage({}, 0)


# --- metadata quorum --------------------------------------------------------------------------------------------------

LOWEST, HIGHEST_LEVEL = METADATA_VERSIONS.lowest, METADATA_VERSIONS.highest


def first_levels(image: ClusterImage) -> ClusterImage:
    return image.apply(decide_first_levels(image, FinalizeFeatures()).delta)


def broker(broker_id: int, *features: FeatureRange) -> BrokerImage:
    return BrokerImage(broker_id, 5, (), None, features=features)


def raised(level: int, kind: UpgradeType = UpgradeType.UPGRADE) -> UpdateFeatures:
    return UpdateFeatures((FeatureChange(METADATA_VERSION, level, kind),))


def test_a_new_log_gets_the_highest_levels_and_an_older_one_the_lowest() -> None:
    new = first_levels(START)
    assert new.features.levels == {**HIGHEST, METADATA_VERSION: HIGHEST_LEVEL}
    assert decide_first_levels(new, FinalizeFeatures()).delta.empty
    before = START.apply(ImageDelta(brokers=(broker(1),)))
    assert first_levels(before).features.levels == {METADATA_VERSION: LOWEST}


def test_metadata_version_rises_once_all_brokers_support_the_level() -> None:
    image = first_levels(START.apply(ImageDelta(brokers=(broker(1, METADATA_VERSIONS), broker(2)))))
    with pytest.raises(KafkaError, match=f"Broker 2 supports levels {LOWEST} to {LOWEST} of metadata.version"):
        decide_update_features(image, raised(HIGHEST_LEVEL))
    image = image.apply(ImageDelta(brokers=(broker(2, METADATA_VERSIONS),)))
    image = image.apply(decide_update_features(image, raised(HIGHEST_LEVEL)).delta)
    assert image.features.metadata_version == HIGHEST_LEVEL
    assert decide_update_features(image, raised(HIGHEST_LEVEL)).delta.empty
    for kind in UpgradeType:
        with pytest.raises(KafkaError, match="cannot be downgraded"):
            decide_update_features(image, raised(LOWEST, kind))
    with pytest.raises(KafkaError, match="The controller supports levels"):
        decide_update_features(image, raised(HIGHEST_LEVEL + 1))


def test_a_metadata_store_has_no_metadata_version() -> None:
    with pytest.raises(KafkaError, match=r"no feature 'metadata\.version'"):
        decide_update_features(START, raised(HIGHEST_LEVEL))
    assert dict(START.features.shown) == {}
