"""Warnings about partitions whose creation was interrupted: no data was lost, and no warning claims a loss."""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import LogEndsTold
from pybroker.broker.controller.broker_decisions import decide_brokers
from pybroker.broker.controller.internal_events import BrokersChanged
from pybroker.broker.controller.leader_election import never_began
from pybroker.broker.controller.log_end_decisions import decide_log_ends
from pybroker.broker.controller.partition_states import waiting_warnings
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, may_lack_logs
from pybroker.broker.metadata.znodes import MISSING_LOG
from tests.unit.controller.test_decisions import arrival, cluster, created, led


class WarnedCluster:
    """A cluster of three brokers with one partition, led by broker 1, and the warnings so far."""

    def __init__(self) -> None:
        self.image: ClusterImage = created(cluster(1, 2, 3), "a", partitions=1, factor=3)
        self.warnings: list[str] = []

    def brokers(self, change: BrokersChanged) -> None:
        decision = decide_brokers(self.image, change)
        self.warnings += decision.warnings
        self.image = self.image.apply(decision.delta)

    def told(self, broker_id: int, end: int) -> None:
        slots = ((self.image.topics["a"].topic_id, 0, 0 if end > 0 else -1, end),)
        decision = decide_log_ends(self.image, LogEndsTold(broker_id, self.image.brokers[broker_id].epoch, slots))
        self.warnings += decision.warnings
        self.image = self.image.apply(decision.delta)

    @property
    def leader(self) -> int:
        return led(self.image)[0][0]


def interrupted() -> WarnedCluster:
    """Return the state after the controller, which has the first replica, died before any other replica got the
    order."""
    said = WarnedCluster()
    said.brokers(BrokersChanged(gone=(1,)))
    said.told(2, MISSING_LOG)
    assert may_lack_logs(said.image.topics["a"].partitions[0])
    said.told(3, MISSING_LOG)
    assert said.leader == -1
    return said


def test_a_partition_that_no_replica_has_made_has_lost_nothing() -> None:
    said = interrupted()
    said.brokers(BrokersChanged((arrival(1, 9),)))
    said.told(1, MISSING_LOG)
    assert (said.leader, said.warnings) == (1, [])


def test_a_partition_that_never_took_a_record_has_lost_nothing() -> None:
    said = interrupted()
    said.brokers(BrokersChanged((arrival(1, 9),)))
    said.told(1, 0)
    assert (said.leader, said.warnings) == (1, [])


def test_a_leader_that_dies_after_the_others_have_told_has_lost_nothing() -> None:
    """The dead controller is still registered when the others report that they have no log. It is alone in the ISR."""
    said = WarnedCluster()
    said.told(2, MISSING_LOG)
    said.told(3, MISSING_LOG)
    said.brokers(BrokersChanged(gone=(1,)))
    (warning,) = said.warnings
    assert "brokers 1 are back, which may have the only log of partitions whose creation was interrupted. " in warning
    assert said.leader == -1


def test_records_of_one_replica_alone_are_doubtful() -> None:
    said = interrupted()
    said.brokers(BrokersChanged((arrival(1, 9),)))
    said.told(1, 5)
    (warning,) = said.warnings
    assert (said.leader, "may be lost: a-0" in warning) == (1, True)


def test_a_log_that_is_gone_with_its_disk_is_no_interrupted_creation() -> None:
    partition = interrupted().image.topics["a"].partitions[0]
    assert never_began(partition, frozenset())
    assert not never_began(partition, frozenset((2, 3)))
    assert not never_began(msgspec.structs.replace(partition, young=False, state_version=20), frozenset())


def test_who_is_waited_for_may_have_the_only_log() -> None:
    """A broker that reported a missing log restarts; the partition has no leader until the first replica is back."""
    said = interrupted()
    partition = said.image.topics["a"].partitions[0]
    before = msgspec.structs.replace(partition, suspect=())
    topic = msgspec.structs.replace(said.image.topics["a"], partitions=(before,))
    image = said.image.apply(ImageDelta(topics=(topic,)))
    (warning,) = waiting_warnings(image, [said.image.topics["a"]], frozenset((2, 3)), frozenset())
    assert "brokers 1 are back, which may have the only log of partitions whose creation was interrupted. " in warning
    (warning,) = waiting_warnings(image, [said.image.topics["a"]], frozenset((2, 3)), frozenset((2, 3)))
    assert "brokers 1 are back, which may have records that other replicas have lost " in warning


def test_records_of_a_replica_that_was_not_in_sync_are_told() -> None:
    """The replicas in sync have no log: there is no leader, and the broker's log names the reason."""
    said = WarnedCluster()
    for change in (
        BrokersChanged(gone=(2,)),
        BrokersChanged(gone=(3,)),
        BrokersChanged((arrival(2, 8),)),
        BrokersChanged((arrival(3, 9),)),
    ):
        said.brokers(change)
    said.told(1, MISSING_LOG)
    said.told(3, 5)
    (warning,) = said.warnings
    assert said.leader == -1
    assert warning.startswith("partitions have no leader: only broker 3, which was not in sync, ")
    assert warning.endswith(": a-0")
