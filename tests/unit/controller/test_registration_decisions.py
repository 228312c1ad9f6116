"""Registrations of brokers in a metadata quorum."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from pybroker.broker.cluster.quorum_events import AllocateProducerIds, MarkStaged, RegisterBroker, StopBroker
from pybroker.broker.controller.broker_decisions import decide_brokers
from pybroker.broker.controller.internal_events import BrokerForgotten, BrokersChanged, BrokerSessionEnded
from pybroker.broker.controller.registration_decisions import (
    decide_marks,
    decide_producer_ids,
    decide_registration,
    decide_session_end,
    decide_stop,
)
from pybroker.broker.controller.unregister import decide_forgotten
from pybroker.broker.metadata.feature_levels import METADATA_VERSION, METADATA_VERSIONS, FeaturesImage
from pybroker.broker.metadata.image import UNREGISTERED, ClusterImage, ImageDelta
from pybroker.broker.metadata.znodes import RunningNode, StagedNode
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import ENDPOINT, arrival, created

FIRST, SECOND = Uuid.random(), Uuid.random()
RUN = RunningNode("boot", "os", ("dir-a",))


def registration(broker_id: int, incarnation: Uuid, run: RunningNode = RUN) -> RegisterBroker:
    return RegisterBroker(broker_id, incarnation, (ENDPOINT,), "rack", run, ("/data",), ())


def at(image: ClusterImage, offset: int) -> ClusterImage:
    return msgspec.structs.replace(image, offset=offset)


def registered(offset: int, *brokers: int, run: RunningNode = RUN) -> ClusterImage:
    image = ClusterImage.initial(1)
    for broker_id in brokers:
        image = at(image, offset + broker_id)
        image = image.apply(decide_registration(image, registration(broker_id, FIRST, run)).delta)
    return image


def test_the_epoch_is_the_offset() -> None:
    image = at(ClusterImage.initial(1), 7)
    decision = decide_registration(image, registration(1, FIRST))
    after = image.apply(decision.delta)
    assert decision.reply.epoch == 7
    broker = after.brokers[1]
    assert (broker.epoch, broker.incarnation, broker.rack, broker.log_dirs) == (7, FIRST, "rack", ("/data",))
    assert after.running == {1: RUN}


def test_a_repeated_registration_changes_nothing() -> None:
    image = registered(10, 1)
    again = decide_registration(at(image, 50), registration(1, FIRST))
    assert (again.reply.epoch, again.delta) == (11, ImageDelta())


def test_a_restart_replaces_the_registration_of_the_same_directory() -> None:
    image = registered(10, 1)
    after = decide_registration(at(image, 50), registration(1, SECOND))
    assert after.reply.epoch == 50


@pytest.mark.parametrize("directories", [("dir-b",), ()])
def test_a_live_broker_keeps_its_id(directories: tuple[str, ...]) -> None:
    other = msgspec.structs.replace(RUN, directory_ids=directories)
    with pytest.raises(KafkaError) as refused:
        decide_registration(at(registered(10, 1), 50), registration(1, SECOND, other))
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_crash_with_another_boot_makes_the_replicas_suspect() -> None:
    image = created(registered(10, 1, 2), "t", partitions=1, factor=2)
    leader = image.topics["t"].partitions[0].leader
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(1, 2))).delta)
    other = msgspec.structs.replace(RUN, boot_id="b")
    image = image.apply(decide_registration(at(image, 50), registration(leader, SECOND, other)).delta)
    assert [one.broker_id for one in image.topics["t"].partitions[0].suspect] == [leader]
    # The decision has processed the loss: the next registration does not report it again.
    assert not image.running[leader].suspect


def test_a_clean_stop_loses_nothing() -> None:
    image = created(registered(10, 1, 2), "t", partitions=1, factor=2)
    leader = image.topics["t"].partitions[0].leader
    image = image.apply(decide_stop(image, StopBroker(leader, image.brokers[leader].epoch, True)).delta)
    assert leader not in image.brokers
    assert image.running[leader].stopped
    assert image.topics["t"].partitions[0].leader == 3 - leader
    other = msgspec.structs.replace(RUN, boot_id="b")
    image = image.apply(decide_registration(at(image, 50), registration(leader, SECOND, other)).delta)
    assert image.topics["t"].partitions[0].suspect == ()


def test_a_lost_directory_is_remembered_until_a_complete_stop() -> None:
    image = registered(10, 1, run=msgspec.structs.replace(RUN, directory_ids=("dir-a", "dir-x")))
    decision = decide_registration(at(image, 50), registration(1, SECOND))
    assert decision.reply.lost_directories == ("dir-x",)
    image = image.apply(decision.delta)
    assert image.brokers[1].emptied
    assert image.running[1].gone == ("dir-x",)
    halfway = image.apply(decide_stop(image, StopBroker(1, 50, False)).delta)
    assert halfway.running[1].gone == ("dir-x",)
    assert image.apply(decide_stop(image, StopBroker(1, 50, True)).delta).running[1].gone == ()


def test_the_end_of_a_session_moves_leadership_of_that_epoch_only() -> None:
    image = created(registered(10, 1, 2), "t", partitions=1, factor=2)
    leader = image.topics["t"].partitions[0].leader
    epoch = image.brokers[leader].epoch
    with pytest.raises(KafkaError) as stale:
        decide_session_end(image, BrokerSessionEnded(leader, epoch - 1))
    assert stale.value.code == ErrorCode.STALE_BROKER_EPOCH
    after = image.apply(decide_session_end(image, BrokerSessionEnded(leader, epoch)).delta)
    assert leader not in after.brokers
    assert after.topics["t"].partitions[0].leader == 3 - leader
    assert image.apply(decide_brokers(image, BrokersChanged(gone=(leader,))).delta) == after


def marks(image: ClusterImage) -> Mapping[int, set[Uuid]]:
    return {broker_id: set(found) for broker_id, found in image.staged.items()}


def test_marks_come_and_go() -> None:
    image, a, b = ClusterImage.initial(1), Uuid.random(), Uuid.random()
    mark = StagedNode("t", 1, 2)
    for broker_id in (1, 2):
        image = image.apply(decide_marks(image, MarkStaged(broker_id, staged={a: mark, b: mark})).delta)
    assert marks(image) == {1: {a, b}, 2: {a, b}}
    assert decide_marks(image, MarkStaged(1, staged={a: mark}, removed=(Uuid.random(),))).delta == ImageDelta()
    image = image.apply(decide_marks(image, MarkStaged(1, removed=(a,))).delta)
    assert marks(image) == {1: {b}, 2: {a, b}}
    image = image.apply(decide_marks(image, MarkStaged(1, removed=(b,))).delta)
    assert marks(image) == {2: {a, b}}


def test_a_forgotten_broker_leaves_no_mark() -> None:
    image = registered(10, 1)
    image = image.apply(decide_marks(image, MarkStaged(1, staged={FIRST: StagedNode("t", 1, 2)})).delta)
    image = image.apply(ImageDelta(lost_brokers=(1,), broker_epochs={1: UNREGISTERED}))
    image = image.apply(decide_forgotten(image, BrokerForgotten(1)).delta)
    assert (image.running, image.staged, image.broker_epochs) == ({}, {}, {})


def test_blocks_of_producer_ids_do_not_overlap() -> None:
    image = ClusterImage.initial(1)
    seen: set[int] = set()
    for broker_id in (1, 2, 1):
        decision = decide_producer_ids(image, AllocateProducerIds(broker_id))
        block = set(range(decision.reply.first, decision.reply.last + 1))
        assert len(block) == 1_000
        assert not block & seen
        seen |= block
        image = image.apply(decision.delta)


def test_a_registration_elects_leaders_like_an_arrival() -> None:
    image = created(registered(10, 1, 2, 3), "t", partitions=6, factor=3)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(1, 2, 3))).delta)
    by_store = decide_brokers(image, BrokersChanged((arrival(2, 50),))).delta
    by_event = decide_registration(at(image, 50), registration(2, SECOND, msgspec.structs.replace(RUN))).delta
    assert by_event.topics == by_store.topics


def test_a_broker_that_does_not_support_the_level_is_refused() -> None:
    level = METADATA_VERSIONS.highest
    image = ClusterImage.initial(1).apply(ImageDelta(features=FeaturesImage({METADATA_VERSION: level}, 0)))
    with pytest.raises(KafkaError, match="supports 30 to 30") as refused:
        decide_registration(image, registration(1, FIRST))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    known = msgspec.structs.replace(registration(1, FIRST), features=(METADATA_VERSIONS,))
    assert image.apply(decide_registration(image, known).delta).brokers[1].features == (METADATA_VERSIONS,)
