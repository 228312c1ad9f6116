"""Elections: of preferred leaders, and unclean elections, which need a setting that allows them."""

from __future__ import annotations

import msgspec
import pytest

from pybroker.broker.cluster.events import AlterConfigs, ConfigChange, ElectedPartition, ElectLeaders, ReplicasOffline
from pybroker.broker.controller.broker_decisions import decide_brokers, decide_offline
from pybroker.broker.controller.config_decisions import decide_alter_configs
from pybroker.broker.controller.election_decisions import (
    BALANCED_AT_ONCE,
    decide_any_leaders,
    decide_balance,
    decide_elect_leaders,
)
from pybroker.broker.controller.internal_events import BalanceLeaders, BrokersChanged, ElectAnyLeaders
from pybroker.broker.controller.leader_election import UNCLEAN, allows_more, unclean_elections_of
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ConfigImage, ImageDelta, PartitionImage
from pybroker.broker.metadata.znodes import UNKNOWN_END, LogEnd
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import arrival, cluster, created


def with_state(image: ClusterImage, topic: str, index: int, **fields: object) -> ClusterImage:
    """Return the image with another state of a partition."""
    known = image.topics[topic]
    partitions = list(known.partitions)
    partitions[index] = msgspec.structs.replace(partitions[index], **fields)
    return image.apply(ImageDelta(topics=(msgspec.structs.replace(known, partitions=tuple(partitions)),)))


def state(image: ClusterImage, topic: str = "a", index: int = 0) -> PartitionImage:
    return image.topics[topic].partitions[index]


def lossy(image: ClusterImage) -> ClusterImage:
    return msgspec.structs.replace(image, unclean_elections=True)


@pytest.fixture
def image() -> ClusterImage:
    """Return an image in which partition 0 has the replicas 1, 2, 3."""
    return created(cluster(1, 2, 3), "a", partitions=3, factor=3)


def elected(image: ClusterImage, *, unclean: bool = False, all_: bool = False) -> tuple[ClusterImage, list[int]]:
    decision = decide_elect_leaders(image, ElectLeaders(unclean, None if all_ else (ElectedPartition("a", 0),)))
    return image.apply(decision.delta), [one.error_code for one in decision.reply]


def test_the_preferred_leader_is_elected(image: ClusterImage) -> None:
    moved = with_state(image, "a", 0, leader=2)
    after, codes = elected(moved)
    assert codes == [ErrorCode.NONE]
    assert (state(after).leader, state(after).leader_epoch, state(after).isr) == (1, 1, (1, 2, 3))
    assert elected(after)[1] == [ErrorCode.ELECTION_NOT_NEEDED]
    assert elected(with_state(image, "a", 0, leader=2, isr=(2, 3)))[1] == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    dead = moved.apply(ImageDelta(lost_brokers=(1,)))
    assert elected(dead)[1] == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    leaving = moved.apply(ImageDelta(leaving=(1,)))
    assert elected(leaving)[1] == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_of_all_partitions_only_those_are_answered_that_need_it(image: ClusterImage) -> None:
    moved = with_state(with_state(image, "a", 0, leader=2), "a", 1, leader=1, isr=(1,))
    decision = decide_elect_leaders(moved, ElectLeaders(False, None))
    assert [(one.partition, one.error_code) for one in decision.reply] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]


def test_an_id_of_another_incarnation_is_refused(image: ClusterImage) -> None:
    wanted = ElectedPartition("a", 0, Uuid.random())
    [outcome] = decide_elect_leaders(image, ElectLeaders(False, (wanted,))).reply
    assert outcome.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_partitions_that_there_are_not(image: ClusterImage) -> None:
    wanted = tuple(ElectedPartition(*one) for one in (("a", 3), ("b", 0), ("a", -1)))
    decision = decide_elect_leaders(image, ElectLeaders(False, wanted))
    assert {one.error_code for one in decision.reply} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert decision.operations == ()


def test_an_unclean_election_is_for_partitions_without_a_leader_and_is_told(image: ClusterImage) -> None:
    assert elected(image, unclean=True)[1] == [ErrorCode.ELECTION_NOT_NEEDED]
    without = with_state(image, "a", 0, leader=NO_LEADER, isr=(3,)).apply(ImageDelta(lost_brokers=(3,)))
    decision = decide_elect_leaders(without, ElectLeaders(True, (ElectedPartition("a", 0),)))
    after = state(without.apply(decision.delta))
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), 1)
    (warning,) = decision.warnings
    assert warning.startswith("elected leaders that were not in sync")
    assert "a-0" in warning
    nobody = without.apply(ImageDelta(lost_brokers=(1, 2)))
    assert elected(nobody, unclean=True)[1] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    # A member of the ISR is back, and no record is lost.
    clean = decide_elect_leaders(with_state(image, "a", 0, leader=NO_LEADER, isr=(3,)), ElectLeaders(True, None))
    assert (clean.reply[0].error_code, clean.warnings) == (0, ())


def test_what_is_said_of_a_leader_depends_on_what_it_may_have_lost(image: ClusterImage) -> None:
    """All replicas in sync may have lost records. That is not the same as electing a leader that was not in sync."""
    hurt = (LogEnd(1, 0, 70), LogEnd(2, -1, UNKNOWN_END))
    waiting = with_state(image, "a", 0, leader=NO_LEADER, isr=(1, 2), suspect=hurt)
    event = ElectLeaders(True, (ElectedPartition("a", 0),))
    for decision in (
        decide_elect_leaders(waiting, event),
        decide_any_leaders(lossy(waiting), ElectAnyLeaders()),
        decide_brokers(lossy(waiting), BrokersChanged((arrival(1, 9),))),
    ):
        (warning,) = decision.warnings
        assert "an unclean election" in warning
        assert "were not in sync" not in warning
        assert "longest log" not in warning, "nobody knows"
    known = with_state(image, "a", 0, leader=NO_LEADER, isr=(1, 2), suspect=(LogEnd(1, 0, 70), LogEnd(2, 0, 80)))
    offline = ReplicasOffline(3, ((image.topics["a"].topic_id, 0),))
    for decision in (decide_elect_leaders(known, event), decide_offline(known, offline)):
        (warning,) = decision.warnings
        assert "the in-sync replica with the longest log" in warning
        assert "were not in sync" not in warning


def test_replicas_that_are_not_in_sync_lead_only_where_that_is_allowed(image: ClusterImage) -> None:
    behind = with_state(image, "a", 0, leader=2, isr=(2,))
    gone = BrokersChanged(gone=(2,))
    refused = decide_brokers(behind, gone)
    assert state(behind.apply(refused.delta)).leader == NO_LEADER
    assert refused.warnings == ()
    allowed = decide_brokers(lossy(behind), gone)
    after = behind.apply(allowed.delta)
    assert (state(after).leader, state(after).isr) == (1, (1,))
    (warning,) = allowed.warnings
    assert "a-0" in warning
    assert "a-1" not in warning, "the others had somebody in sync"
    # The topic's own setting overrides the cluster's.
    own = msgspec.structs.replace(behind.topics["a"], config={UNCLEAN: "false"})
    strict = lossy(behind.apply(ImageDelta(topics=(own,))))
    assert state(strict.apply(decide_brokers(strict, gone).delta)).leader == NO_LEADER


def test_a_replica_that_arrives_leads_uncleanly(image: ClusterImage) -> None:
    without = lossy(with_state(image, "a", 0, leader=NO_LEADER, isr=(3,)).apply(ImageDelta(lost_brokers=(1, 2, 3))))
    decision = decide_brokers(without, BrokersChanged((arrival(2, 9),)))
    assert state(without.apply(decision.delta)).leader == 2


def test_failing_disks_end_an_unclean_election(image: ClusterImage) -> None:
    """Each replica's disk fails in turn; no replica is elected twice."""
    now = lossy(with_state(image, "a", 0, leader=1, isr=(1,)))
    topic_id = now.topics["a"].topic_id
    leaders = []
    for _ in range(4):
        failed = ReplicasOffline(state(now).leader if state(now).leader >= 0 else 3, ((topic_id, 0),))
        now = now.apply(decide_offline(now, failed).delta)
        leaders.append(state(now).leader)
    assert leaders == [2, 3, NO_LEADER, NO_LEADER]


def test_allowing_it_elects_at_once(image: ClusterImage) -> None:
    without = with_state(image, "a", 0, leader=NO_LEADER, isr=(3,)).apply(ImageDelta(lost_brokers=(3,)))
    change = AlterConfigs((ConfigChange("topic", "a", {UNCLEAN: "true"}),))
    delta = decide_alter_configs(without, change).delta
    after = without.apply(delta)
    assert allows_more(without, after, delta)
    assert not allows_more(after, after, delta)
    assert state(without.apply(decide_any_leaders(without, ElectAnyLeaders()).delta)).leader == NO_LEADER
    decision = decide_any_leaders(after, ElectAnyLeaders())
    assert state(after.apply(decision.delta)).leader == 1
    assert decision.warnings


def test_where_the_clusters_word_comes_from() -> None:
    assert unclean_elections_of({}, 1, True)
    cluster_wide = {"<default>": ConfigImage({UNCLEAN: "false"}, 0)}
    assert not unclean_elections_of(cluster_wide, 1, True)
    assert unclean_elections_of({**cluster_wide, "1": ConfigImage({UNCLEAN: "true"}, 0)}, 1, False)
    assert not unclean_elections_of({**cluster_wide, "1": ConfigImage({UNCLEAN: "true"}, 0)}, 2, False)


def test_preferred_leaders_come_back_above_the_percentage(image: ClusterImage) -> None:
    many = created(cluster(1, 2, 3), "a", partitions=30, factor=3)
    first = [index for index, one in enumerate(many.topics["a"].partitions) if one.replicas[0] == 1]
    lent = many
    for index in first[:1]:
        lent = with_state(lent, "a", index, leader=2)
    assert decide_balance(lent, BalanceLeaders(10)).reply == 0, "one of ten is not more than 10 %"
    lent = with_state(lent, "a", first[1], leader=2)
    decision = decide_balance(lent, BalanceLeaders(10))
    assert decision.reply == 2
    assert all(one.leader == one.replicas[0] for one in lent.apply(decision.delta).topics["a"].partitions)
    moving = with_state(lent, "a", first[1], adding_replicas=(1,))
    assert decide_balance(moving, BalanceLeaders(10)).reply == 1, "what is being reassigned is left alone"
    late = with_state(lent, "a", first[1], isr=(2, 3))
    assert decide_balance(late, BalanceLeaders(10)).reply == 1


def test_leaders_come_back_in_bounded_parts() -> None:
    """A storm of elections does not move everything at once."""
    many = created(cluster(1, 2), "a", partitions=BALANCED_AT_ONCE * 3, factor=2)
    partitions = tuple(msgspec.structs.replace(one, leader=2) for one in many.topics["a"].partitions)
    lent = many.apply(ImageDelta(topics=(msgspec.structs.replace(many.topics["a"], partitions=partitions),)))
    replies: list[int] = []
    while not replies or replies[-1]:
        decision = decide_balance(lent, BalanceLeaders(0))
        replies.append(decision.reply)
        lent = lent.apply(decision.delta)
    assert replies == [BALANCED_AT_ONCE, BALANCED_AT_ONCE // 2, 0]
