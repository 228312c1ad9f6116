"""Feature levels of a metadata quorum: finalized at the first start, raised after a rolling upgrade, never lowered."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.broker.metadata.feature_levels import HIGHEST, METADATA_VERSIONS
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.quorum.scene import QuorumBroker, Scene, until
from tests.support.kafka_tools import ToolError, run_tool
from tests.wire.client import WireClient

OLD, NEW = METADATA_VERSIONS.lowest, METADATA_VERSIONS.highest
METADATA, KRAFT = "metadata.version", "kraft.version"
SAFE_DOWNGRADE = 2


class OlderRelease(Scene):
    """Three brokers of a release that knows only the lowest level."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.older = set(self.brokers)
        for broker in self.brokers.values():
            broker.command = self.command_of(broker)  # type: ignore[method-assign]

    def command_of(self, broker: QuorumBroker):  # type: ignore[no-untyped-def]
        def command() -> list[str]:
            python, _, program, *rest = QuorumBroker.command(broker)
            assert program == "pybroker"
            if int(broker.settings["node.id"]) in self.older:
                return [python, "-m", "tests.quorum.older_release", str(OLD), *rest]
            return [sys.executable, "-m", "pybroker", *rest]

        return command


@pytest.fixture
def older(tmp_path: Path) -> Iterator[OlderRelease]:
    with OlderRelease(tmp_path) as scene:
        yield scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as scene:
        scene.start()
        yield scene


def finalized(port: int) -> tuple[dict[str, int], int]:
    with WireClient(port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    assert (supported[METADATA], supported[KRAFT]) == ((OLD, NEW), (1, 1))
    return {one.name: one.max_version_level for one in answer.finalized_features}, answer.finalized_features_epoch


def updated(port: int, level: int, kind: int = 1, *, validate_only: bool = False) -> tuple[int, str | None]:
    key = m.UpdateFeaturesRequest_FeatureUpdateKey(feature=METADATA, max_version_level=level, upgrade_type=kind)
    request = m.UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[key], validate_only=validate_only)
    with WireClient(port) as client:
        answer = client.call(request, 2)
    return answer.error_code, answer.error_message


def test_kafkas_tool_shows_the_levels_of_the_first_start(scene: Scene) -> None:
    port = scene.brokers[1].port
    assert finalized(port) == ({**HIGHEST, METADATA: NEW, KRAFT: 1}, 1)

    def features(*arguments: str) -> str:
        return run_tool("kafka-features", ["--bootstrap-server", scene.bootstrap, *arguments])

    shown = features("describe")
    assert re.search(rf"Feature: {METADATA}\s+SupportedMinVersion: 4.3-IV0\s+SupportedMaxVersion: \S+", shown), shown
    assert re.search(rf"Feature: {KRAFT}\s+SupportedMinVersion: 1\s+SupportedMaxVersion: 1\s+Finalized\w+: 1", shown)
    with pytest.raises(ToolError, match="cannot be downgraded: the metadata log may have records"):
        features("downgrade", "--metadata", "4.3-IV0")
    with pytest.raises(ToolError, match=f"The controller supports levels {OLD} to {NEW} of {METADATA}, not {NEW + 1}"):
        features("upgrade", "--feature", f"{METADATA}={NEW + 1}")
    assert updated(port, OLD, SAFE_DOWNGRADE)[0] == ErrorCode.INVALID_UPDATE_VERSION
    assert finalized(port) == ({**HIGHEST, METADATA: NEW, KRAFT: 1}, 1), "nothing was changed"


def test_a_rolling_upgrade_ends_with_a_higher_level(older: OlderRelease) -> None:
    older.start()
    brokers = older.brokers
    until(older.all_vote)
    assert finalized(brokers[1].port)[0][METADATA] == OLD
    for broker_id in (1, 2):
        older.older.discard(broker_id)
        brokers[broker_id].restart()
        until(lambda: len(in_cluster(older)) == len(brokers))
    code, words = updated(brokers[1].port, NEW, validate_only=True)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert words == (
        f"The controller supports levels {OLD} to {OLD} of {METADATA}, not {NEW}."
        if older.controller() == 3
        else f"Broker 3 supports levels {OLD} to {OLD} of {METADATA}, not {NEW}. Upgrade it first."
    )

    older.older.discard(3)
    brokers[3].restart()
    until(lambda: len(in_cluster(older)) == len(brokers))
    assert updated(brokers[1].port, NEW, validate_only=True) == (0, None)
    assert finalized(brokers[1].port)[0][METADATA] == OLD, "only validated"
    said = run_tool(
        "kafka-features", ["--bootstrap-server", older.bootstrap, "upgrade", "--feature", f"{METADATA}={NEW}"]
    )
    assert f"{METADATA} was upgraded to {NEW}" in said
    assert [finalized(broker.port) for broker in brokers.values()] == [({**HIGHEST, METADATA: NEW, KRAFT: 1}, 2)] * 3

    brokers[3].stop()
    older.older.add(3)
    brokers[3].launch()
    assert brokers[3].wait() == 1
    line = (
        f"pybroker: the cluster is at level {NEW} of {METADATA}, and this release supports {OLD} to {OLD}: "
        "start this broker with a release that supports the level"
    )
    assert line in brokers[3].log_tail().splitlines()
    older.older.discard(3)
    brokers[3].start()
    assert finalized(brokers[3].port)[0][METADATA] == NEW


def in_cluster(scene: Scene) -> set[int]:
    request = m.MetadataRequest(topics=[])
    with WireClient(scene.brokers[1].port) as client:
        return {broker.node_id for broker in client.call(request, 9).brokers}
