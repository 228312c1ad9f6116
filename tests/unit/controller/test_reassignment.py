"""Reassignments: the decision of each step. A crash between any two steps leads to the requested result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from pybroker.broker.cluster.events import (
    AlterIsr,
    CreatePartitions,
    DeleteTopics,
    IsrChange,
    NewPartitions,
    NewReplicas,
    ReassignPartitions,
    TruncateTopics,
    Truncation,
    UndeleteTopic,
)
from pybroker.broker.controller.broker_decisions import decide_brokers
from pybroker.broker.controller.decision import Decision
from pybroker.broker.controller.internal_events import (
    AdvanceDeletions,
    AdvanceReassignments,
    BrokersChanged,
    FinishUndelete,
    ReplicasGone,
)
from pybroker.broker.controller.isr_decisions import decide_alter_isr
from pybroker.broker.controller.reassignment_decisions import (
    decide_advance,
    decide_gone,
    decide_reassign,
    moving_topics,
)
from pybroker.broker.controller.topic_decisions import create_operations, decide_create_partitions
from pybroker.broker.controller.topic_deletion import decide_advance as advance_deletions
from pybroker.broker.controller.topic_deletion import decide_delete
from pybroker.broker.controller.truncate import decide_truncate
from pybroker.broker.controller.undelete import decide_finish_undelete, decide_undelete
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.broadcast import Broadcast
from pybroker.broker.metadata.control_messages import LeaderAndIsrRequest, StopReplicaRequest
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ImageDelta, PartitionImage, target_replicas
from pybroker.broker.metadata.image_loader import Nodes, load_image
from pybroker.broker.metadata.metadata_store import Create, Node, Operation, Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import arrival, cluster, created
from tests.unit.controller.test_election_decisions import state, with_state

BROKERS = (1, 2, 3, 4, 5)


@pytest.fixture
def image() -> ClusterImage:
    """Return an image in which partition 0 has the replicas 1, 2, 3, all in sync."""
    found = created(cluster(*BROKERS), "a", partitions=1, factor=3)
    return with_state(found, "a", 0, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)


def asked(
    image: ClusterImage, replicas: tuple[int, ...] | None, *, factor_may_change: bool = True
) -> tuple[ClusterImage, int]:
    event = ReassignPartitions((NewReplicas("a", 0, replicas),), factor_may_change)
    decision = decide_reassign(image, event)
    (error,) = decision.reply
    return image.apply(decision.delta), 0 if error is None else error.code


def in_sync(image: ClusterImage, *isr: int) -> ClusterImage:
    """Let the leader propose its ISR, then advance finished reassignments."""
    now = state(image)
    members = tuple((one, -1 if one in now.isr else 1) for one in isr)
    change = IsrChange(image.topics["a"].topic_id, 0, now.leader_epoch, members, now.state_version)
    decision = decide_alter_isr(image, AlterIsr(now.leader, 1, (change,)))
    assert [one.error_code for one in decision.reply] == [0]
    return advanced(image.apply(decision.delta))


def advanced(image: ClusterImage) -> ClusterImage:
    return image.apply(decide_advance(image, AdvanceReassignments((image.topics["a"].topic_id,))).delta)


def shape(partition: PartitionImage) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_new_replicas_come_before_old_ones_go(image: ClusterImage) -> None:
    begun, code = asked(image, (4, 2, 1))
    assert code == 0
    assert shape(state(begun)) == ((4, 2, 1, 3), (4,), (3,))
    assert (state(begun).leader, state(begun).isr, state(begun).leader_epoch) == (1, (1, 2, 3), 1)
    assert moving_topics(begun.topics.values()) == {"a"}
    assert advanced(begun) == begun, "4 has nothing yet"
    done = state(in_sync(begun, 1, 2, 3, 4))
    assert shape(done) == ((4, 2, 1), (), ())
    assert (done.leader, set(done.isr), done.leader_epoch) == (1, {1, 2, 4}, 2)


def test_the_leader_moves_when_it_goes(image: ClusterImage) -> None:
    begun, _ = asked(image, (4, 5))
    assert state(begun).leader == 1
    half = in_sync(begun, 1, 2, 3, 5)
    assert shape(state(half)) == ((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    done = state(in_sync(half, 1, 2, 3, 4, 5))
    assert (shape(done), done.leader, set(done.isr)) == (((4, 5), (), ()), 4, {4, 5})


def test_what_needs_no_copy_is_done_at_once(image: ClusterImage) -> None:
    fewer, _ = asked(image, (2,))
    assert (shape(state(fewer)), state(fewer).leader, state(fewer).isr) == (((2,), (), ()), 2, (2,))
    order, _ = asked(image, (3, 2, 1))
    assert (shape(state(order)), state(order).leader) == (((3, 2, 1), (), ()), 1)
    assert asked(image, (1, 2, 3)) == (image, 0)


def test_as_many_replicas_stay_in_sync(image: ClusterImage) -> None:
    """2 and 3 have the acknowledged records. 3 leaves only when another replica has them."""
    behind = with_state(image, "a", 0, isr=(1, 3))
    waiting, _ = asked(behind, (1, 2))
    assert shape(state(waiting)) == ((1, 2, 3), (), (3,))
    done = in_sync(waiting, 1, 3, 2)
    assert shape(state(done)) == ((1, 2), (), ())
    # A remaining replica that was already behind does not delay the others.
    other, _ = asked(behind, (1, 2, 4))
    assert shape(state(in_sync(other, 1, 3, 4))) == ((1, 2, 4), (), ())


def test_a_reassignment_is_taken_back(image: ClusterImage) -> None:
    begun, _ = asked(image, (4, 5, 1))
    half = in_sync(begun, 1, 2, 3, 5)
    back, code = asked(half, None)
    assert code == 0
    assert (shape(state(back)), state(back).isr, state(back).leader) == (((1, 2, 3), (), ()), (1, 2, 3), 1)
    assert asked(back, None)[1] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    led = with_state(half, "a", 0, leader=5)
    assert state(asked(led, None)[0]).leader == 1, "a leader that goes hands over"
    lost = with_state(half, "a", 0, leader=5, isr=(5,))
    assert asked(lost, None)[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only the new one has it all"


def test_another_one_takes_its_place(image: ClusterImage) -> None:
    begun, _ = asked(image, (4, 2, 1))
    other, _ = asked(in_sync(begun, 1, 2, 3), (5, 2, 1))
    assert shape(state(other)) == ((5, 2, 1, 3), (5,), (3,))
    assert shape(state(in_sync(other, 1, 2, 3, 5))) == ((5, 2, 1), (), ())


def test_what_is_refused(image: ClusterImage) -> None:
    wrong = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [asked(image, one)[1] for one in ((), (1, 1), (1, 9))] == [wrong] * 3
    dead = image.apply(ImageDelta(lost_brokers=(3, 5)))
    assert asked(dead, (1, 2, 5))[1] == wrong
    assert asked(dead, (3, 2, 4))[1] == 0, "one that is there already may be down"
    assert asked(image, (1, 2), factor_may_change=False)[1] == ErrorCode.INVALID_REPLICATION_FACTOR
    begun, _ = asked(image, (4, 2, 1))
    assert asked(begun, (4, 5, 1), factor_may_change=False)[1] == 0
    unknown = (NewReplicas("a", 1, (1,)), NewReplicas("b", 0, (1,)), NewReplicas("a", 0, (1,), Uuid.random()))
    reply = decide_reassign(image, ReassignPartitions(unknown)).reply
    assert [one.code for one in reply if isinstance(one, KafkaError)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3


def test_one_request_may_name_a_partition_twice(image: ClusterImage) -> None:
    event = ReassignPartitions((NewReplicas("a", 0, (4, 2, 1)), NewReplicas("a", 0, None)))
    decision = decide_reassign(image, event)
    assert decision.reply == [None, None]
    assert shape(state(image.apply(decision.delta))) == ((2, 1, 3), (), ()), "the order is that of the last step"
    assert [type(one) for one in decision.operations] == [Set, Set]


def test_each_broker_hears_its_part(image: ClusterImage) -> None:
    decision = decide_reassign(image, ReassignPartitions((NewReplicas("a", 0, (4, 2, 1)),)))
    begun = image.apply(decision.delta)
    messages = Broadcast(1, None).changes(image, begun, decision.delta, 1)
    new = {
        broker: [
            one.is_new
            for message in sent
            if isinstance(message, LeaderAndIsrRequest)
            for topic in message.topic_states
            for one in topic.partition_states
        ]
        for broker, sent in messages.items()
    }
    assert new == {1: [False], 2: [False], 3: [False], 4: [True], 5: []}
    ready = with_state(begun, "a", 0, isr=(1, 2, 3, 4))
    end = decide_advance(ready, AdvanceReassignments((ready.topics["a"].topic_id,)))
    done = ready.apply(end.delta)
    stops = {
        broker: message
        for broker, sent in Broadcast(1, None).changes(ready, done, end.delta, 2).items()
        for message in sent
        if isinstance(message, StopReplicaRequest)
    }
    assert set(stops) == {3}
    (stopped,) = stops[3].topic_states
    (one,) = stopped.partition_states
    assert stopped.topic_id == image.topics["a"].topic_id
    assert (one.delete_partition, one.leader_epoch) == (True, state(done).leader_epoch)


def test_delete_wins(image: ClusterImage) -> None:
    begun, _ = asked(image, (4, 2, 1))
    topic_id = image.topics["a"].topic_id
    gone = begun.apply(decide_delete(begun, DeleteTopics((topic_id,), "User:a", 1, 1)).delta)
    assert decide_advance(gone, AdvanceReassignments((topic_id,))).operations == ()
    assert gone.deletions[topic_id].partitions == {0: (4, 2, 1, 3)}, "all that may have a part of it"
    late = ReassignPartitions((NewReplicas("a", 0, (5, 2, 1), topic_id),))
    assert decide_reassign(created(gone, "a"), late).reply[0].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_other_changes_of_the_topic_go_on_meanwhile(image: ClusterImage) -> None:
    begun, _ = asked(image, (4, 2, 1))
    more = CreatePartitions((NewPartitions("a", 2, None),), False, 0)
    grown = begun.apply(decide_create_partitions(begun, more).delta)
    assert len(state(grown, index=1).replicas) == 3
    assert shape(state(grown))[1:] == ((4,), (3,))
    assert shape(state(in_sync(grown, 1, 2, 3, 4))) == ((4, 2, 1), (), ())
    event = TruncateTopics((Truncation(image.topics["a"].topic_id, False),), "User:a", 1, 1)
    assert state(begun.apply(decide_truncate(begun, event).delta)).replicas == (4, 2, 1)


def test_brokers_go_and_come_meanwhile(image: ClusterImage) -> None:
    begun, _ = asked(image, (4, 5, 1))
    without = begun.apply(decide_brokers(begun, BrokersChanged(gone=(1,))).delta)
    assert (state(without).leader, shape(state(without))[1:]) == (2, ((4, 5), (2, 3)))
    done = in_sync(in_sync(without, 2, 3, 4), 2, 3, 4, 5)
    assert (shape(state(done)), state(done).leader) == (((4, 5, 1), (), ()), 4), "who stays may be down"
    # The only in-sync replica dies, and it is the one to be removed: no replica replaces it.
    alone = with_state(begun, "a", 0, isr=(2,), leader=2)
    dead = advanced(alone.apply(decide_brokers(alone, BrokersChanged(gone=(2,))).delta))
    assert (state(dead).leader, shape(state(dead))[2]) == (NO_LEADER, (2, 3))


class Store:
    """The topics' nodes after the multis."""

    def __init__(self, image: ClusterImage) -> None:
        self.nodes: dict[str, Node] = {}
        for topic in image.topics.values():
            self.write(create_operations(image, topic))

    def write(self, operations: Sequence[Operation]) -> None:
        for one in operations:
            if isinstance(one, Create):
                self.nodes[one.path] = Node(one.data, 0, 1, 1, 1, 0)
            elif isinstance(one, Set) and one.path != znodes.BROKER_EPOCHS:
                known = self.nodes[one.path]
                assert one.version in (-1, known.version)
                self.nodes[one.path] = msgspec.structs.replace(known, data=one.data, version=known.version + 1)

    def successor(self, epoch: int) -> ClusterImage:
        """Return the image that another controller loads, once all brokers have registered with it."""
        admin = {path: node for path, node in self.nodes.items() if path.startswith("/admin")}
        topics = {path: node for path, node in self.nodes.items() if path.startswith(znodes.TOPICS)}
        image = load_image(epoch, Nodes(topics, {}, admin)).image
        found = state(image)
        assert found.isr
        assert found.leader in (NO_LEADER, *found.isr)
        assert set(found.isr) <= set(found.replicas)
        return self.decided(image, decide_brokers(image, BrokersChanged(tuple(arrival(one, 1) for one in BROKERS))))

    def decided(self, image: ClusterImage, decision: Decision, crash_after: int | None = None) -> ClusterImage:
        """Execute a decision like the controller's loop. After a crash, only the first writes exist if the decision may
        be written in parts."""
        assert decision.separable
        self.write(decision.operations[:crash_after])
        return image.apply(decision.delta)


def next_decision(image: ClusterImage, target: tuple[int, ...] | None, wanted: tuple[int, ...]) -> Decision:
    """Return the next events: the controller's own events, the request again if it was lost, and an ISR change for a
    replica that has caught up."""
    now, topic_id = state(image), image.topics["a"].topic_id
    advance = decide_advance(image, AdvanceReassignments((topic_id,)))
    if advance.operations:
        return advance
    if target_replicas(now) != wanted or (target is None and now.adding_replicas):
        return decide_reassign(image, ReassignPartitions((NewReplicas("a", 0, target),)))
    missing = [one for one in now.replicas if one not in now.isr]
    members = tuple((one, 1 if one in missing else -1) for one in (*now.isr, *missing[:1]))
    change = IsrChange(topic_id, 0, now.leader_epoch, members, now.state_version)
    return decide_alter_isr(image, AlterIsr(now.leader, 1, (change,)))


@pytest.mark.parametrize("target", [(4, 5), (4, 2, 1), (3, 2, 1, 5), (2,), None], ids=str)
def test_a_controller_that_dies_at_any_step_leaves_what_the_next_one_ends(
    image: ClusterImage, target: tuple[int, ...] | None
) -> None:
    """The controller is killed between any two writes of any step, at most once; the next controller reaches the same
    result."""
    undisturbed = list(walk(image, target, None))
    crashes = [(step, done) for step, one in enumerate(undisturbed) for done in range(len(one.operations) + 1)]
    assert len(crashes) >= 3
    for crash in crashes:
        list(walk(image, target, crash))


def walk(image: ClusterImage, target: tuple[int, ...] | None, crash: tuple[int, int] | None) -> Iterator[Decision]:
    """Apply decisions until the end. The controller dies in one step after the given number of writes."""
    store = Store(image)
    wanted = (1, 2, 3) if target is None else target
    if target is None:
        begun = decide_reassign(image, ReassignPartitions((NewReplicas("a", 0, (4, 5, 1)),)))
        image = store.decided(image, begun)
    step = 0
    while shape(state(image)) != (wanted, (), ()):
        decision = next_decision(image, target, wanted)
        assert decision.operations, "it goes on"
        yield decision
        if crash is not None and crash[0] == step:
            store.decided(image, decision, crash[1])
            image = store.successor(6 + step)
        else:
            image = store.decided(image, decision)
        step += 1
        assert step < 20
    assert state(image).leader in wanted
    assert state(store.successor(99)) is not None


def departed(image: ClusterImage) -> dict[int, dict[int, int]]:
    return {index: dict(brokers) for index, brokers in image.topics["a"].departed.items()}


def confirmed(image: ClusterImage, broker_id: int, epoch: int) -> ClusterImage:
    event = ReplicasGone(((image.topics["a"].topic_id, 0, broker_id, epoch),))
    return image.apply(decide_gone(image, event).delta)


@pytest.mark.checklist("R30")
def test_who_has_left_is_known_until_it_has_confirmed(image: ClusterImage) -> None:
    gone, _ = asked(image, (1, 2))
    first = state(gone).leader_epoch
    assert departed(gone) == {0: {3: first}}
    assert confirmed(gone, 2, first) == gone, "it is a replica"
    decision = decide_gone(gone, ReplicasGone(((gone.topics["a"].topic_id, 0, 3, first),)))
    (written,) = decision.operations
    assert isinstance(written, Set)
    assert znodes.decode_topic("", written.data).departed_replicas == {}
    assert departed(gone.apply(decision.delta)) == {}
    back, _ = asked(gone, (1, 2, 3))
    assert departed(back) == {}
    again, _ = asked(in_sync(back, 1, 2, 3), (1, 2))
    assert departed(again) == {0: {3: state(again).leader_epoch}}
    assert confirmed(again, 3, first) == again, "it is late, and says nothing of what came after it"
    assert departed(confirmed(again, 3, state(again).leader_epoch)) == {}


@pytest.mark.checklist("R30")
def test_a_deletion_names_who_has_left(image: ClusterImage) -> None:
    """This includes the removals of an undeleted topic. A new incarnation of the name has none."""
    gone, _ = asked(image, (1, 2))
    topic = gone.topics["a"]
    dead = gone.apply(decide_delete(gone, DeleteTopics((topic.topic_id,), "User:a", 1, 2)).delta)
    record = dead.deletions[topic.topic_id]
    assert (record.brokers, record.unconfirmed, record.held_by(3)) == ({1, 2}, {1, 2, 3}, [0])
    most = dead.apply(advance_deletions(dead, AdvanceDeletions(confirmed=((topic.topic_id, (1, 2)),))).delta)
    assert most.deletions[topic.topic_id].unconfirmed == {3}
    coming = most.apply(decide_undelete(most, UndeleteTopic(topic.topic_id, None, "User:a", 3)).delta)
    event = FinishUndelete(topic.topic_id, None, {0: (1, 2)})
    back = coming.apply(decide_finish_undelete(coming, event).delta)
    assert (state(back).replicas, departed(back)) == ((1, 2), {0: {3: state(back).leader_epoch}})
    truncation = TruncateTopics((Truncation(topic.topic_id, False),), "User:a", 1, 4)
    anew = back.apply(decide_truncate(back, truncation).delta)
    assert departed(anew) == {}
    assert anew.deletions[topic.topic_id].unconfirmed == {1, 2, 3}


@pytest.mark.checklist("R30", 118)
def test_a_name_does_not_wait_for_who_has_left(image: ClusterImage) -> None:
    """Without topic ids, a name waits for every replica. A replica that was moved away is not among them."""
    gone, _ = asked(msgspec.structs.replace(image, topic_ids=False), (1, 2))
    topic_id = gone.topics["a"].topic_id
    dead = gone.apply(decide_delete(gone, DeleteTopics((topic_id,), "User:a", 1, 2)).delta)
    one = dead.apply(advance_deletions(dead, AdvanceDeletions(confirmed=((topic_id, (1,)),))).delta)
    assert dict(one.reserved) == {"a": topic_id}
    decision = advance_deletions(one, AdvanceDeletions(confirmed=((topic_id, (2,)),)))
    assert znodes.topic_path("a") in [operation.path for operation in decision.operations]
    both = one.apply(decision.delta)
    assert (dict(both.reserved), both.deletions[topic_id].unconfirmed) == ({}, {3})
