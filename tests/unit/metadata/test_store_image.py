"""Nodes of a metadata store as an image for a metadata log."""

from __future__ import annotations

import msgspec
import pytest

from pybroker.broker.coordinators.producer_ids import BLOCK_PATH, ProducerIdBlock
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.feature_levels import FEATURES, HIGHEST, METADATA_VERSIONS, encode_features
from pybroker.broker.metadata.image import NO_LEADER, RequestOutcome
from pybroker.broker.metadata.metadata_store import Node
from pybroker.broker.metadata.outcome_nodes import encode_outcome, outcome_path
from pybroker.broker.metadata.records.snapshots import image_from_records, image_to_records
from pybroker.broker.metadata.znodes import RunningNode, StagedNode, TopicNode
from pybroker.broker.offline.store_image import image_of_store
from pybroker.errors import StartError
from pybroker.native import Uuid

ID, GONE, REQUEST = Uuid.random(), Uuid.random(), Uuid.random()
RUNNING = RunningNode("boot", "os", ("a", "b"), gone=("c",), stopped=True, topic_ids=True)
STAGED = StagedNode("gone", 5, 6, "boot", 7, 8)
LAST = 4 << 32
CONTENT: dict[str, bytes] = {
    znodes.CONTROLLER_EPOCH: b"7",
    znodes.BROKER_EPOCHS: znodes.encode_broker_epochs({1: 30, 2: -1}),
    znodes.topic_path("orders"): TopicNode(ID, {0: (1, 2), 1: (2, 1)}).encode(),
    znodes.partitions_path("orders"): b"",
    f"{znodes.partitions_path('orders')}/0": b"",
    znodes.state_path("orders", 0): znodes.encode_state(7, 1, 5, (1, 2)),
    f"{znodes.partitions_path('orders')}/1": b"",
    znodes.state_path("orders", 1): znodes.encode_state(6, 2, 9, (2,), young=True),
    f"{znodes.RUNNING}/1": RUNNING.encode(),
    f"{znodes.STAGED}/1": b"",
    f"{znodes.STAGED}/1/{GONE}": STAGED.encode(),
    BLOCK_PATH: msgspec.json.encode(ProducerIdBlock(1, 1, "4000", "4999")),
    FEATURES: encode_features({"share.version": 1}),
    outcome_path(REQUEST): encode_outcome(RequestOutcome(11, "CreateTopics", b"reply")),
}


def nodes(**changes: bytes) -> dict[str, Node]:
    content = {**CONTENT, **changes}
    return {path: Node(data, 3, 10, LAST if path == BLOCK_PATH else 20, 0, 0) for path, data in content.items()}


def test_epochs_of_the_log_are_above_those_of_the_store() -> None:
    image = image_of_store(nodes())
    assert image.offset == LAST + 1
    assert image.controller_epoch == 7
    partitions = image.topics["orders"].partitions
    assert [(each.leader, each.leader_epoch, each.isr) for each in partitions] == [
        (NO_LEADER, 6, (1, 2)),
        (NO_LEADER, 10, (2,)),
    ]
    assert partitions[1].young


def test_image_has_what_the_store_has_outside_the_controllers_image() -> None:
    image = image_of_store(nodes())
    assert image.running == {1: RUNNING}
    assert image.staged == {1: {GONE: STAGED}}
    assert image.next_producer_id == 5000
    assert image.outcomes == {REQUEST: RequestOutcome(11, "CreateTopics", b"reply")}
    assert image.features.levels == {**HIGHEST, "share.version": 1, "metadata.version": METADATA_VERSIONS.highest}
    assert image.features.version == 4
    assert image_from_records(image_to_records(image)) == image


@pytest.mark.parametrize(
    ("path", "data", "told"),
    [
        (znodes.topic_path("old"), TopicNode(None, {0: (1,)}).encode(), "topic old has no topic id yet"),
        (znodes.topic_id_path("orders"), znodes.TopicIdRecord(ID, 10).encode(), "not all replicas of topic orders"),
        (znodes.old_deletion_path("orders"), b"", "the deletion of topic orders, which began without topic ids"),
        (znodes.state_path("orders", 0), b"{", "topic orders has damaged metadata"),
        (f"/ingest/open/{ID}/a", b"{", "has damaged metadata"),
        (BLOCK_PATH, b"{", "the metadata store is damaged"),
        (f"{znodes.RUNNING}/1", b"{", "the metadata store is damaged"),
        (f"{znodes.STAGED}/1/{GONE}", b"{", "the metadata store is damaged"),
    ],
    # The paths and the data have random ids, which differ between the processes of a test run.
    ids=[
        "no id",
        "half migrated",
        "old deletion",
        "damaged state",
        "damaged ingest",
        "damaged block",
        "damaged broker",
        "damaged mark",
    ],
)
def test_store_that_cannot_move_is_refused(path: str, data: bytes, told: str) -> None:
    with pytest.raises(StartError, match=told):
        image_of_store(nodes(**{path: data}))
