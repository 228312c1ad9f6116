"""Decisions are pure: from an image and an event they compute writes, a change and a reply."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from pybroker.broker.cluster.events import (
    AlterConfigs,
    AlterIsr,
    ConfigChange,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectedPartition,
    ElectLeaders,
    IsrChange,
    LogEndsTold,
    NewPartitions,
    NewTopic,
    ReplicasOffline,
    ShutDownBroker,
    ShutDownOutcome,
)
from pybroker.broker.controller import (
    broker_decisions,
    config_decisions,
    leader_election,
    replica_placement,
    topic_decisions,
    topic_deletion,
)
from pybroker.broker.controller.broker_decisions import decide_brokers, decide_offline, decide_shut_down
from pybroker.broker.controller.config_decisions import decide_alter_configs
from pybroker.broker.controller.deletion_tracker import RETRIES_MAX, Deletions
from pybroker.broker.controller.election_decisions import decide_elect_leaders
from pybroker.broker.controller.internal_events import AdvanceDeletions, Arrival, BrokersChanged
from pybroker.broker.controller.isr_decisions import decide_alter_isr
from pybroker.broker.controller.local_controller_client import LocalControllerClient
from pybroker.broker.controller.log_end_decisions import decide_log_ends
from pybroker.broker.controller.replica_placement import place
from pybroker.broker.controller.staged_data import StoredStagedData
from pybroker.broker.controller.topic_decisions import decide_create, decide_create_partitions
from pybroker.broker.controller.topic_deletion import TOMBSTONES_MAX, decide_advance, decide_delete
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import StopReplicaRequest, StopReplicaResponse, StopReplicaTopicState
from pybroker.broker.metadata.deletion_records import decode_deletion
from pybroker.broker.metadata.image import BrokerImage, ClusterImage, ConfigImage, ImageDelta, PartitionImage
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.metadata_store import Create, Delete, Node, Set, UnavailableError
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

ENDPOINT = znodes.Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")


def broker(broker_id: int, rack: str | None = None) -> BrokerImage:
    return BrokerImage(broker_id, 1, (ENDPOINT,), rack)


def cluster(*ids: int) -> ClusterImage:
    return ClusterImage.initial(5).apply(ImageDelta(brokers=tuple(broker(one) for one in ids)))


def arrival(broker_id: int, epoch: int, *, intact: bool = True, emptied: bool = False) -> Arrival:
    return Arrival(BrokerImage(broker_id, epoch, (ENDPOINT,), None, emptied), intact)


def created(image: ClusterImage, *names: str, partitions: int = 3, factor: int = 1) -> ClusterImage:
    event = CreateTopics(tuple(NewTopic(name, partitions, factor, None, {}) for name in names), False, 0, 100)
    decision = decide_create(image, event)
    assert all(isinstance(result, CreatedTopic) for result in decision.reply)
    return image.apply(decision.delta)


def deleted(image: ClusterImage, *which: str | Uuid) -> ClusterImage:
    return image.apply(decide_delete(image, DeleteTopics(which, "User:a", 1000, 50)).delta)


def test_decisions_are_plain_functions() -> None:
    for module in (
        topic_decisions,
        broker_decisions,
        config_decisions,
        topic_deletion,
        replica_placement,
        leader_election,
    ):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            assert not inspect.iscoroutinefunction(function), name


def test_placement_is_even_and_spreads_followers() -> None:
    brokers_ = [broker(one) for one in range(5)]
    placed = place(brokers_, 100, 3, seed=7)
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {20}
    assert set(Counter(one for replicas in placed for one in replicas).values()) == {60}
    pairs = Counter(replicas[:2] for replicas in placed)
    assert len(pairs) == 20
    racked = [broker(one, f"r{one % 3}") for one in range(6)]
    assert all(len({one % 3 for one in replicas}) == 3 for replicas in place(racked, 6, 3, 0))


@pytest.mark.parametrize("racks", [(2, 2), (3, 3), (1, 3), (2, 2, 2), (4, 4)], ids=str)
@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_no_rack_gets_two_replicas_while_another_has_none(racks: tuple[int, ...], factor: int) -> None:
    """This holds in later rounds as in the first, from every starting broker."""
    names = [f"r{rack}" for rack, size in enumerate(racks) for _ in range(size)]
    rack_of = dict(enumerate(names))
    brokers_ = [broker(number, name) for number, name in rack_of.items()]
    for seed in range(2 * len(names)):
        placed = place(brokers_, 5 * len(names), factor, seed)
        for replicas in placed:
            assert len(set(replicas)) == factor
            assert len({rack_of[one] for one in replicas}) == min(factor, len(racks))
        held = Counter(one for replicas in placed for one in replicas)
        if len(set(racks)) == 1:
            assert max(held.values()) == min(held.values()), "racks of one size are loaded equally"


@pytest.mark.checklist(48, 156)
def test_brokers_whose_directories_are_cordoned_get_no_replicas() -> None:
    """Directories are cordoned by the settings file with which a broker registers; dynamic settings of the cluster and
    of the broker override it."""

    def placed(of_file: tuple[str, ...], dynamic: Mapping[str, str]) -> set[int]:
        first = msgspec.structs.replace(broker(1), log_dirs=("/a", "/b"), cordoned=of_file)
        configs = {name: ConfigImage({"cordoned.log.dirs": text}, 0) for name, text in dynamic.items()}
        image = cluster(2).apply(ImageDelta(brokers=(first,), broker_configs=configs))
        return {one for assigned in replica_placement.place_new(image, 8, 1, 0) for one in assigned}

    both = ("/a", "/b")
    assert placed((), {}) == placed(("/a",), {}) == placed(both, {"1": ""}) == {1, 2}
    assert placed(both, {}) == placed((), {"1": "*"}) == placed((), {"1": "/b, /a"}) == {2}
    assert placed((), {"<default>": "*", "2": ""}) == {2}
    with pytest.raises(KafkaError) as refused:
        placed(both, {"2": "*"})
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_create_writes_everything_in_one_change() -> None:
    image = cluster(1, 2)
    event = CreateTopics((NewTopic("a.b", 2, 2, None, {"retention.ms": "5"}),), False, 3, 100)
    decision = decide_create(image, event)
    paths = [operation.path for operation in decision.operations if isinstance(operation, Create)]
    assert paths == [
        "/brokers/topics/a.b",
        "/config/topics/a.b",
        f"/admin/lineage/{decision.reply[0].topic_id}",
        "/brokers/topics/a.b/partitions",
        "/brokers/topics/a.b/partitions/0",
        "/brokers/topics/a.b/partitions/0/state",
        "/brokers/topics/a.b/partitions/1",
        "/brokers/topics/a.b/partitions/1/state",
    ]
    after = image.apply(decision.delta)
    assert image.topics == {}
    topic = after.topics["a.b"]
    assert all(partition.leader == partition.replicas[0] for partition in topic.partitions)
    assert after.topic_by_id(topic.topic_id) is topic
    node = next(one for one in decision.operations if isinstance(one, Create) and one.path == "/brokers/topics/a.b")
    assert str(topic.topic_id).encode() in node.data
    again = decide_create(image, event).reply[0].topic_id
    assert again != topic.topic_id
    assert {one.bytes[6] >> 4 for one in (again, topic.topic_id)} == {4}, "random (version 4)"
    clash = decide_create(after, CreateTopics((NewTopic("a_b", 1, 1, None, {}),), False, 3, 100))
    assert (clash.operations, clash.reply[0].code) == ((), 17)
    both = CreateTopics((NewTopic("x.y", 1, 1, None, {}), NewTopic("x_y", 1, 1, None, {})), False, 3, 100)
    first, second = decide_create(image, both).reply
    assert isinstance(first, CreatedTopic)
    assert isinstance(second, KafkaError)


@pytest.mark.checklist(2, 31, 33, "A23", "X17", "D25")
def test_ids_that_were_ever_used_and_reserved_ones_are_not_used() -> None:
    image = created(cluster(1), "a")
    dead = image.topics["a"].topic_id
    image = created(deleted(image, "a"), "b")
    live = image.topics["b"].topic_id
    fresh = Uuid.random()
    ids = iter([Uuid.ZERO, dead, Uuid.METADATA, live, fresh])
    event = CreateTopics((NewTopic("c", 1, 1, None, {}),), False, 0, 100)
    assert decide_create(image, event, lambda: next(ids)).reply[0].topic_id == fresh


def test_delete_is_one_change_and_keeps_the_floor() -> None:
    image = created(cluster(1), "a", partitions=2)
    topic = image.topics["a"]
    raised = msgspec.structs.replace(
        topic, partitions=(msgspec.structs.replace(topic.partitions[0], leader_epoch=41), topic.partitions[1])
    )
    image = image.apply(ImageDelta(topics=(raised,)))
    decision = decide_delete(image, DeleteTopics(("a", "a", "none"), "User:a", 1000, 50))
    assert [getattr(one, "code", 0) for one in decision.reply] == [0, 3, 3]
    removed = [operation.path for operation in decision.operations if isinstance(operation, Delete)]
    assert removed[-2:] == ["/brokers/topics/a", f"/admin/lineage/{topic.topic_id}"]
    assert len(removed) == 7
    made = {one.path: one.data for one in decision.operations if isinstance(one, Create)}
    assert made["/admin/epoch_floors/a"] == b'{"version":1,"leader_epoch":41}'
    record = decode_deletion("", made[f"/admin/deleted_topics/{topic.topic_id}"])
    assert (record.deleted_ms, record.remove_after_ms, record.state) == (1000, 1050, "deleting")
    image = image.apply(decision.delta)
    image = created(image, "a", partitions=1)
    assert image.topics["a"].partitions[0].leader_epoch == 42
    grown = decide_create_partitions(image, CreatePartitions((NewPartitions("a", 2, None),), False, 0))
    assert grown.delta.topics[0].partitions[1].leader_epoch == 42
    again = decide_delete(image, DeleteTopics(("a",), "User:a", 2000, 50))
    assert Set("/admin/epoch_floors/a", b'{"version":1,"leader_epoch":42}') in again.operations


def test_partitions_are_added_to_the_incarnation_that_was_read() -> None:
    image = created(cluster(1), "a")
    first = image.topics["a"].topic_id
    image = created(deleted(image, "a"), "a")
    event = CreatePartitions((NewPartitions("a", 9, None, first),), False, 0)
    assert decide_create_partitions(image, event).reply[0].code == 3


def test_leaders_after_a_start() -> None:
    image = created(cluster(1), "a", partitions=2)
    unclean = decide_brokers(image, BrokersChanged((arrival(1, 9, intact=False),)))
    assert [p.leader_epoch for p in unclean.delta.topics[0].partitions] == [1, 1]
    assert [operation.version for operation in unclean.operations if isinstance(operation, Set)] == [0, 0, -1]
    clean = decide_brokers(image, BrokersChanged((arrival(1, 9),)))
    assert (clean.delta.topics, clean.operations) == ((), (Set("/brokers/epochs", b'{"1":9}'),))
    assert clean.delta.brokers[0].epoch == 9
    known = image.apply(clean.delta)
    assert decide_brokers(known, BrokersChanged((arrival(1, 9),))).operations == (), "what a successor finds"


def led(image: ClusterImage, topic: str = "a") -> list[tuple[int, int, tuple[int, ...]]]:
    return [(one.leader, one.leader_epoch, one.isr) for one in image.topics[topic].partitions]


def test_who_is_gone_leads_nothing_and_is_in_no_isr_of_others() -> None:
    image = created(cluster(1, 2, 3), "a", partitions=3, factor=2)
    assert led(image) == [(1, 0, (1, 2)), (2, 0, (2, 3)), (3, 0, (3, 1))]
    decision = decide_brokers(image, BrokersChanged(gone=(2,)))
    image = image.apply(decision.delta)
    assert led(image) == [(1, 1, (1,)), (3, 1, (3,)), (3, 0, (3, 1))]
    assert (sorted(image.brokers), decision.separable) == ([1, 3], True)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(3,))).delta)
    assert led(image) == [(1, 1, (1,)), (-1, 2, (3,)), (1, 1, (1,))]
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(2, 50),))).delta)
    assert led(image)[1] == (-1, 2, (3,)), "it was not in sync"
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(3, 51),))).delta)
    assert led(image)[1] == (3, 3, (3,))


def test_a_leader_with_followers_begins_an_epoch_with_each_life() -> None:
    image = created(cluster(1, 2), "a", partitions=1, factor=2)
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 9), arrival(2, 8)))).delta)
    assert led(image) == [(1, 1, (1, 2))]
    # Another controller loads the same incarnations.
    assert decide_brokers(image, BrokersChanged((arrival(1, 9), arrival(2, 8)))).operations == ()
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(2, 10),))).delta)
    assert led(image) == [(1, 1, (1, 2))], "a follower claims only what is on its disk"
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 11),))).delta)
    assert led(image) == [(1, 2, (1, 2))]


def test_a_new_controller_takes_those_out_that_were_gone_before_it_came() -> None:
    image = created(cluster(1, 2, 3), "a", partitions=3, factor=3)
    loaded = image.apply(ImageDelta(lost_brokers=(1, 2, 3)))  # as a new controller begins
    loaded = loaded.apply(decide_brokers(loaded, BrokersChanged((arrival(2, 1), arrival(3, 1)))).delta)
    assert [(leader, set(isr)) for leader, _, isr in led(loaded)] == [(2, {2, 3}), (2, {2, 3}), (3, {2, 3})]


def test_who_may_have_lost_records_leaves_every_isr_that_has_another_member() -> None:
    image = created(cluster(1, 2), "a", partitions=1, factor=2)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(1, 2))).delta)
    assert led(image) == [(-1, 1, (1, 2))]
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 9, intact=False),))).delta)
    assert led(image) == [(-1, 2, (2,))], "the other one may have it all, whatever becomes of this one"
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(2, 10),))).delta)
    assert led(image) == [(2, 3, (2,))]
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(2, 12, intact=False),))).delta)
    assert led(image) == [(-1, 4, (2,))], "nobody knows whether the second life before had shown itself"
    topic_id = image.topics["a"].topic_id
    for broker_id, epoch, end in ((1, 9, 70), (2, 12, 80)):
        image = image.apply(decide_log_ends(image, LogEndsTold(broker_id, epoch, ((topic_id, 0, 3, end),))).delta)
    assert (led(image), image.topics["a"].partitions[0].suspect) == ([(2, 5, (2,))], ())
    decision = decide_brokers(image, BrokersChanged((arrival(2, 13, intact=False),)))
    assert (led(image.apply(decision.delta)), len(decision.warnings)) == ([(2, 6, (2,))], 1), "nobody else has anything"


def test_a_log_that_was_made_by_one_alone_leads_however_often_the_others_die() -> None:
    """The controller dies when only its own replica has created a log. The others have none, and another broker dies
    before its report arrives."""
    image = created(cluster(1, 2, 3), "a", partitions=1, factor=3)
    slots = ((image.topics["a"].topic_id, 0, -1, znodes.MISSING_LOG),)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(3,))).delta)
    image = image.apply(decide_log_ends(image, LogEndsTold(1, 1, slots)).delta)
    assert led(image) == [(2, 2, (2,))]
    for change in (BrokersChanged((arrival(3, 8),)), BrokersChanged(gone=(2,)), BrokersChanged((arrival(2, 9),))):
        image = image.apply(decide_brokers(image, change).delta)
    assert led(image) == [(2, 4, (2,))]
    image = image.apply(decide_log_ends(image, LogEndsTold(2, 9, slots)).delta)
    assert led(image) == [(-1, 5, (2,))]
    told = LogEndsTold(3, 8, ((image.topics["a"].topic_id, 0, -1, 0),))
    image = image.apply(decide_log_ends(image, told).delta)
    assert led(image) == [(3, 6, (3,))]


def a_first_leader_that_never_began() -> ClusterImage:
    """Return a partition whose first leader is alone in the ISR: the two others, which are back, have left it one after
    the other."""
    image = created(cluster(1, 2, 3), "a", partitions=1, factor=3)
    for change in (
        BrokersChanged(gone=(2,)),
        BrokersChanged(gone=(3,)),
        BrokersChanged((arrival(2, 8),)),
        BrokersChanged((arrival(3, 9),)),
    ):
        image = image.apply(decide_brokers(image, change).delta)
    assert [state[0::2] for state in led(image)] == [(1, (1,))]
    return stored(image)


def stored(image: ClusterImage) -> ClusterImage:
    """Return the states as another controller reads them."""
    changed = []
    for topic in image.topics.values():
        states = [znodes.decode_state("", topic_decisions.encode_state(one)) for one in topic.partitions]
        partitions = [
            msgspec.structs.replace(one, suspect=state.suspect, young=state.young)
            for one, state in zip(topic.partitions, states, strict=True)
        ]
        changed.append(msgspec.structs.replace(topic, partitions=tuple(partitions)))
    return image.apply(ImageDelta(topics=tuple(changed)))


def telling(image: ClusterImage, broker_id: int, end: int) -> ClusterImage:
    slots = ((image.topics["a"].topic_id, 0, 0 if end > 0 else -1, end),)
    told = LogEndsTold(broker_id, image.brokers[broker_id].epoch, slots)
    return stored(image.apply(decide_log_ends(image, told).delta))


def test_others_lead_what_its_only_member_in_sync_never_began() -> None:
    image = telling(a_first_leader_that_never_began(), 1, znodes.MISSING_LOG)
    assert led(image)[0][0] == -1
    image = telling(image, 3, 0)
    assert led(image)[0][0] == -1, "2 may have records"
    image = telling(image, 2, 0)
    assert [state[0::2] for state in led(image)] == [(2, (2,))]


def test_what_has_had_a_leader_is_not_begun_anew_without_its_last_member_in_sync() -> None:
    """The leader's log is gone, and the log of another replica ends earlier."""
    image = telling(a_first_leader_that_never_began(), 1, znodes.MISSING_LOG)
    for broker_id, end in ((3, 5), (2, 0), (3, 5)):
        image = telling(image, broker_id, end)
        partition = image.topics["a"].partitions[0]
        assert (partition.leader, partition.isr) == (-1, (1,))
    assert partition.suspect == (znodes.LogEnd(1, -1, znodes.MISSING_LOG),)
    # The replica does not lead either if a leader has proved that it is alive.
    image = a_first_leader_that_never_began()
    partition = image.topics["a"].partitions[0]
    change = IsrChange(image.topics["a"].topic_id, 0, partition.leader_epoch, ((1, 1), (3, 9)), partition.state_version)
    image = image.apply(decide_alter_isr(image, AlterIsr(1, 1, (change,))).delta)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(3,))).delta)
    image = stored(image.apply(decide_brokers(image, BrokersChanged((arrival(3, 12),))).delta))
    for broker_id, end in ((1, znodes.MISSING_LOG), (2, 0), (3, 0)):
        image = telling(image, broker_id, end)
        assert led(image)[0][0::2] == (-1, (1,))
    # It does not lead either if the data was on a replaced disk.
    image = a_first_leader_that_never_began()
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 13, emptied=True),))).delta)
    for broker_id, end in ((1, znodes.MISSING_LOG), (2, 0), (3, 0)):
        image = telling(image, broker_id, end)
        assert led(image)[0][0::2] == (-1, (1,))


def test_after_a_power_cut_whoever_has_most_leads_also_of_a_young_partition() -> None:
    image = created(cluster(1, 2, 3), "a", partitions=1, factor=3)
    for broker_id, epoch in ((1, 7), (2, 8), (3, 9)):
        change = BrokersChanged((arrival(broker_id, epoch, intact=False),))
        image = stored(image.apply(decide_brokers(image, change).delta))
    for broker_id, end in ((1, 3), (2, 5), (3, 4)):
        image = telling(image, broker_id, end)
    assert led(image)[0][0] == 2


def test_who_has_lost_a_disk_does_not_lead_what_only_it_had() -> None:
    image = created(cluster(1, 2), "a", partitions=1, factor=2)
    image = created(image, "alone", partitions=1, factor=1)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(2,))).delta)
    image = image.apply(decide_brokers(image, BrokersChanged(gone=(1,))).delta)
    assert led(image) == [(-1, 2, (1,))]
    # The first replica is back without a log; then the other one returns, which was not in sync; then the first one
    # again.
    for one in (arrival(1, 9, intact=False, emptied=True), arrival(2, 10), arrival(1, 11, emptied=True)):
        image = image.apply(decide_brokers(image, BrokersChanged((one,))).delta)
        assert led(image) == [(-1, 2, (1,))]
    assert led(image, "alone")[0][0] == 1, "there is nobody who could have it"
    found = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 12),))).delta)
    assert led(found)[0][0] == 1, "the disk is back"
    event = ElectLeaders(unclean=True, partitions=(ElectedPartition("a", 0),))
    lossy = image.apply(decide_elect_leaders(image, event).delta)
    assert led(lossy)[0][0] == 2, "rather what was once in sync than nothing"


def test_before_a_broker_stops_others_lead_and_are_in_sync_without_it() -> None:
    image = created(cluster(1, 2, 3), "a", partitions=3, factor=2)
    image = created(image, "alone", partitions=3, factor=1)
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 9), arrival(2, 8), arrival(3, 7)))).delta)
    decision = decide_shut_down(image, ShutDownBroker(1, 9))
    assert (decision.reply, decision.separable) == (ShutDownOutcome((("alone", 0),)), True)
    after = image.apply(decision.delta)
    assert [(leader, isr) for leader, _, isr in led(after)] == [(2, (2,)), (2, (2, 3)), (3, (3,))]
    # The broker leads no new partition, and rejoins no ISR.
    after = after.apply(decide_brokers(after, BrokersChanged(gone=(2,))).delta)
    assert [leader for leader, _, _ in led(after)] == [-1, 3, 3]
    back = AlterIsr(3, 7, (IsrChange(after.topics["a"].topic_id, 2, led(after)[2][1], ((3, -1), (1, 9)), 2),))
    assert [one.error_code for one in decide_alter_isr(after, back).reply] == [107]
    # This ends when the broker has registered with a new broker epoch.
    after = after.apply(decide_brokers(after, BrokersChanged((arrival(1, 10),))).delta)
    assert (after.leaving, led(after, "alone")[0][0]) == (frozenset(), 1)
    with pytest.raises(KafkaError):
        decide_shut_down(after, ShutDownBroker(1, 9))


def test_many_partitions_are_taken_over_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_decisions, "TAKEN_OVER_MAX", 4)
    image = cluster(1, 2, 3)
    for name in ("a", "b"):
        image = created(image, name, partitions=6, factor=2)
    image = created(image, "alone", partitions=3, factor=1)
    replies, operations = [], []
    while not replies or replies[-1].more:
        decision = decide_shut_down(image, ShutDownBroker(1, 1))
        replies.append(decision.reply)
        operations.append(len(decision.operations))
        image = image.apply(decision.delta)
        assert image.leaving == {1}
    assert operations == [4, 4]
    assert replies == [ShutDownOutcome(more=True), ShutDownOutcome((("alone", 0),))]
    assert not any(leader == 1 or 1 in isr for name in ("a", "b") for leader, _, isr in led(image, name))


def test_states_are_written_before_the_lives_that_they_follow_from() -> None:
    image = created(cluster(1, 2), "a", partitions=2, factor=2)
    *states, epochs = decide_brokers(image, BrokersChanged((arrival(1, 9),))).operations
    assert [one.path for one in states] == ["/brokers/topics/a/partitions/0/state"]
    assert epochs.path == "/brokers/epochs"


def test_replicas_out_of_service_come_back_by_registration() -> None:
    image = created(cluster(1, 2), "a", partitions=1, factor=2)
    topic = image.topics["a"]
    leader, follower = topic.partitions[0].replicas
    moved = image.apply(decide_offline(image, ReplicasOffline(leader, ((topic.topic_id, 0),))).delta)
    state = moved.topics["a"].partitions[0]
    assert (state.leader, state.isr, state.leader_epoch) == (follower, (follower,), 1)
    lost = moved.apply(decide_offline(moved, ReplicasOffline(follower, ((topic.topic_id, 0),))).delta)
    state = lost.topics["a"].partitions[0]
    assert (state.leader, state.isr, state.leader_epoch) == (-1, (follower,), 2)
    for broker_id, expected in ((leader, -1), (follower, follower)):
        back = decide_brokers(lost, BrokersChanged((arrival(broker_id, 10),)))
        after = lost.apply(back.delta)
        assert after.topics["a"].partitions[0].leader == expected
    unknown = decide_offline(image, ReplicasOffline(1, ((Uuid.random(), 0), (topic.topic_id, 77))))
    assert unknown.operations == ()


def test_configs_of_topics_brokers_and_groups() -> None:
    image = created(cluster(1), "a")
    changes = AlterConfigs(
        (
            ConfigChange("topic", "a", {"retention.ms": "5"}),
            ConfigChange("topic", "none", {}),
            ConfigChange("broker", "<default>", {"k": "v"}),
            ConfigChange("group", "a/b", {"k": "v"}, version=-1),
        )
    )
    decision = decide_alter_configs(image, changes)
    assert [getattr(one, "code", 0) for one in decision.reply] == [0, 3, 0, 0]
    assert [type(one) for one in decision.operations] == [Create, Create, Create]
    assert decision.operations[2] == Create("/config/groups/a%2Fb", b'{"version":1,"config":{"k":"v"}}')
    image = image.apply(decision.delta)
    assert image.topics["a"].config == {"retention.ms": "5"}
    assert image.group_config("a/b") == {"k": "v"}
    late = decide_alter_configs(image, AlterConfigs((ConfigChange("group", "a/b", {"k": None}, version=-1),)))
    assert [getattr(one, "code", 0) for one in late.reply] == [ErrorCode.INVALID_UPDATE_VERSION]
    same = decide_alter_configs(image, AlterConfigs((ConfigChange("topic", "a", {"retention.ms": "5"}),)))
    assert same.operations == ()
    removed = decide_alter_configs(image, AlterConfigs((ConfigChange("topic", "a", {}, replace=True),)))
    assert removed.delta.topics[0].config == {}
    assert removed.operations == (Set("/config/topics/a", b'{"version":1,"config":{}}', 0),)


def test_deletions_move_only_forward() -> None:
    image = deleted(created(cluster(1), "a"), "a")
    (topic_id,) = image.deletions
    staged = decide_advance(image, AdvanceDeletions(staged=(topic_id, Uuid.random())))
    assert [record.state for record in staged.delta.deletions] == ["staged"]
    image = image.apply(staged.delta)
    image = image.apply(decide_advance(image, AdvanceDeletions(removed=(topic_id,))).delta)
    assert image.deletions[topic_id].state == "removed"
    assert decide_advance(image, AdvanceDeletions(staged=(topic_id,))).operations == ()


@pytest.mark.checklist(59)
def test_an_id_is_told_with_the_name_that_it_has_or_had(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    image = created(cluster(1), "a", "b")
    dead, live, unknown = image.topics["a"].topic_id, image.topics["b"].topic_id, Uuid.random()
    image = image.apply(decide_delete(image, DeleteTopics(("a",), "User:a", 86_400_000, 50)).delta)
    assert image.describe(live) == f"b (id {live})"
    assert image.describe(dead) == f"a (id {dead}, deleted 1970-01-02T00:00:00+00:00)"
    assert image.describe(unknown) == f"with unknown id {unknown}"
    assert [image.name_of(str(each)) for each in (live, dead, unknown)] == ["b", "a", None]
    assert image.name_of("no id of 22 letters...") is None

    async def nobody_confirms() -> None:
        store = await EmbeddedStore.open(tmp_path)
        deletions = Deletions(StoredStagedData(store), LocalControllerClient(1), lambda broker, ids: None, lambda: 1)
        deletions.start(image)
        request = StopReplicaRequest(1, 5, 1, True, [StopReplicaTopicState("dead", dead, [])])
        for _ in range(RETRIES_MAX + 1):
            deletions.stopped(1, request, StopReplicaResponse(56))
        await deletions.stop()
        await store.close()

    asyncio.run(nobody_confirms())
    assert f"a broker does not confirm the deletion of topic {image.describe(dead)}" in caplog.text


async def test_deletions_go_on_as_soon_as_the_store_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not wait for the pause between two orders: the client that undeletes a topic waits for them."""
    image = deleted(created(cluster(1), "a"), "a")
    (topic_id,) = image.deletions
    image = image.apply(decide_advance(image, AdvanceDeletions(staged=(topic_id,))).delta)
    asked = asyncio.Queue[None]()

    class Away(EmbeddedStore):
        async def children(self, *_: object) -> list[str]:
            asked.put_nowait(None)
            raise UnavailableError("away")

    store = await Away.open(tmp_path)
    deletions = Deletions(StoredStagedData(store), LocalControllerClient(1), lambda broker, ids: None, lambda: 1)
    monkeypatch.setattr("pybroker.broker.controller.deletion_tracker.RETRY_S", 600.0)
    deletions.start(image)
    await asked.get()
    async with asyncio.timeout(120):
        await asked.get()
    await deletions.stop()
    await store.close()


def test_tombstones_are_bounded() -> None:
    image = deleted(created(cluster(1), "a"), "a")
    (record,) = image.deletions.values()
    many = tuple(
        msgspec.structs.replace(record, topic_id=Uuid.random(), state="removed", deleted_ms=number)
        for number in range(TOMBSTONES_MAX)
    )
    image = image.apply(ImageDelta(deletions=many))
    decision = decide_advance(image, AdvanceDeletions(removed=(record.topic_id,)))
    assert decision.delta.forgotten_deletions == (many[0].topic_id,)
    assert len(image.apply(decision.delta).deletions) == TOMBSTONES_MAX


def nodes(operations: tuple[object, ...]) -> dict[str, Node]:
    return {one.path: Node(one.data, 0, 1, 1, 100, 0) for one in operations if isinstance(one, Create)}


def test_a_loaded_image_is_the_one_that_was_stored() -> None:
    image = cluster(1, 2)
    event = CreateTopics((NewTopic("a", 3, 2, None, {"k": "v"}), NewTopic("b_c", 1, 1, None, {})), False, 3, 100)
    decision = decide_create(image, event)
    stored = nodes(decision.operations)
    topics_ = {path: node for path, node in stored.items() if path.startswith("/brokers")}
    configs_ = {path: node for path, node in stored.items() if path.startswith("/config")}
    admin = {path: node for path, node in stored.items() if path.startswith("/admin")}
    loaded, repairs, _ = load_image(5, Nodes(topics_, configs_, admin))
    assert repairs == ()
    expected = image.apply(decision.delta)
    assert (loaded.topics, loaded.names, loaded.clash_keys) == (expected.topics, expected.names, expected.clash_keys)


@pytest.mark.checklist(45, 49, 207, 208, 212)
def test_what_is_incomplete_is_completed_and_what_is_damaged_put_aside() -> None:
    stored = {
        "/brokers/topics/old": Node(b'{"version":1,"partitions":{"0":[1],"1":[1]}}', 4, 1, 1, 100, 0),
        "/brokers/topics/old/partitions": Node(b"", 0, 1, 1, 100, 0),
        "/brokers/topics/old/partitions/0": Node(b"", 0, 1, 1, 100, 0),
        "/brokers/topics/bad": Node(b"{", 0, 1, 1, 100, 0),
    }
    new = Uuid.random()
    image, repairs, unfinished = load_image(5, Nodes(stored, {}, {}), new_id=lambda: new)
    assert unfinished == {"old"}
    assert image.topics["old"].topic_id == new
    assert [partition.leader for partition in image.topics["old"].partitions] == [-1, -1]
    assert [operation.path for operation in repairs] == [
        "/admin/topic_ids/old",
        "/brokers/topics/old",
        "/brokers/topics/old/partitions/0/state",
        "/brokers/topics/old/partitions/1",
        "/brokers/topics/old/partitions/1/state",
    ]
    first = repairs[1]
    assert isinstance(first, Set)
    assert (first.version, znodes.decode_topic("", first.data).topic_id) == (4, new)
    assert set(image.damaged) == {"bad"}
    taken = decide_create(image, CreateTopics((NewTopic("bad", 1, 1, None, {}),), False, 0, 100)).reply[0]
    assert taken.code == 36
    assert decide_delete(image, DeleteTopics(("bad",), "", 0, 0)).reply[0].code == 56


def test_equal_states_are_one_object() -> None:
    image = created(cluster(1), "a", partitions=1000)
    partitions = image.topics["a"].partitions
    assert all(partition is partitions[0] for partition in partitions)
    assert isinstance(partitions[0], PartitionImage)
