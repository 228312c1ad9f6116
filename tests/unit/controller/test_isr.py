"""The leader proposes an ISR; the controller writes it if it still fits the current state."""

from __future__ import annotations

import pytest

from pybroker.broker.cluster.events import AlterIsr, IsrChange
from pybroker.broker.cluster.value_codec import pack, unpack
from pybroker.broker.controller.isr_decisions import decide_alter_isr
from pybroker.broker.metadata.broadcast import Broadcast
from pybroker.broker.metadata.control_messages import LeaderAndIsrRequest, UpdateCluster, UpdateMetadataRequest
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, with_changed_states
from pybroker.broker.metadata.metadata_store import Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster, created

EPOCH = 1
"""Broker epoch of every broker of `cluster`."""


@pytest.fixture
def image() -> ClusterImage:
    return created(cluster(1, 2, 3), "a", partitions=1, factor=3)


def change(
    image: ClusterImage, *members: tuple[int, int], version: int = 0, leader_epoch: int = 0, partition: int = 0
) -> IsrChange:
    return IsrChange(image.topics["a"].topic_id, partition, leader_epoch, members, version)


def decided(
    image: ClusterImage, *changes: IsrChange, by: int = 1, epoch: int = EPOCH
) -> tuple[ClusterImage, list[int]]:
    decision = decide_alter_isr(image, AlterIsr(by, epoch, changes))
    return image.apply(decision.delta), [one.error_code for one in decision.reply]


@pytest.mark.checklist("R27")
def test_a_set_is_written_under_the_version_that_the_leader_knew(image: ClusterImage) -> None:
    shrunk = change(image, (1, -1), (3, EPOCH))
    decision = decide_alter_isr(image, AlterIsr(1, EPOCH, (shrunk,)))
    (written,) = decision.operations
    assert isinstance(written, Set)
    assert (written.path, written.version) == ("/brokers/topics/a/partitions/0/state", 0)
    (outcome,) = decision.reply
    assert (outcome.error_code, outcome.isr, outcome.version, outcome.leader_epoch) == (0, (1, 3), 1, 0)
    after = image.apply(decision.delta)
    # A repeated proposal whose response was lost gets the current state.
    (again,) = decide_alter_isr(after, AlterIsr(1, EPOCH, (shrunk,))).reply
    assert (again.error_code, again.isr, again.version) == (ErrorCode.INVALID_UPDATE_VERSION, (1, 3), 1)


@pytest.mark.checklist("R27")
def test_who_is_refused(image: ClusterImage) -> None:
    refused = [
        (change(image, (1, -1), leader_epoch=-1), ErrorCode.FENCED_LEADER_EPOCH),
        (change(image, (1, -1), leader_epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (change(image, (2, EPOCH)), ErrorCode.INVALID_REQUEST),
        (change(image, (1, -1), (1, -1)), ErrorCode.INVALID_REQUEST),
        (change(image, (1, -1), (7, -1)), ErrorCode.INVALID_REQUEST),
        (change(image, (1, -1), (2, EPOCH - 1)), ErrorCode.INELIGIBLE_REPLICA),
        (change(image, (1, -1), partition=4), ErrorCode.UNKNOWN_TOPIC_ID),
        (IsrChange(Uuid.random(), 0, 0, ((1, -1),), 0), ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    for one, code in refused:
        after, codes = decided(image, one)
        assert (codes, after.topics) == ([code], image.topics), one
    assert decided(image, change(image, (2, -1)), by=2)[1] == [ErrorCode.INVALID_REQUEST], "it does not lead"
    with pytest.raises(KafkaError) as refusal:
        decided(image, change(image, (1, -1)), epoch=EPOCH - 1)
    assert refusal.value.code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.checklist("R27")
def test_who_comes_back_comes_in_with_the_life_that_the_leader_has_heard(image: ClusterImage) -> None:
    image, codes = decided(image, change(image, (1, -1), (2, EPOCH)))
    assert codes == [0]
    for epoch, code in ((-1, ErrorCode.INELIGIBLE_REPLICA), (EPOCH - 1, ErrorCode.INELIGIBLE_REPLICA), (EPOCH, 0)):
        after, codes = decided(image, change(image, (1, -1), (2, EPOCH), (3, epoch), version=1))
        assert codes == [code]
    assert after.topics["a"].partitions[0].isr == (1, 2, 3)


def test_replicas_are_not_told_what_the_leader_has_asked_for(image: ClusterImage) -> None:
    decision = decide_alter_isr(image, AlterIsr(1, EPOCH, (change(image, (1, -1), (2, EPOCH)),)))
    messages = Broadcast(1, None).changes(image, image.apply(decision.delta), decision.delta, 2)
    for sent in messages.values():
        assert not [one for one in sent if isinstance(one, LeaderAndIsrRequest)]
        (shown,) = [one for one in sent if isinstance(one, UpdateMetadataRequest)]
        assert shown.topic_states[0].partition_states[0].isr == (1, 2)


def test_brokers_are_told_of_the_partitions_that_changed(image: ClusterImage) -> None:
    """A change of one ISR in a topic of 10,000 partitions does not send 10,000 states to each broker."""
    decision = decide_alter_isr(image, AlterIsr(1, EPOCH, (change(image, (1, -1), (2, EPOCH)),)))
    sent = with_changed_states(image, decision.delta)
    assert not sent.topics
    assert [(one.name, list(one.partitions)) for one in sent.states] == [("a", [0])]
    assert image.apply(sent) == image.apply(decision.delta)
    for message in Broadcast(1, None).changes(image, image.apply(decision.delta), decision.delta, 2).values():
        assert isinstance(message[0], UpdateCluster)
        assert message[0].change == sent
        assert unpack(ImageDelta, pack(sent)) == sent
