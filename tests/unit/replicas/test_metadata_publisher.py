"""The messages that a broker derives from the metadata log equal those of a controller with a metadata store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from pybroker.broker.cluster.events import (
    AlterConfigs,
    AlterIsr,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Event,
    IsrChange,
    NewPartitions,
    NewTopic,
    ReplicasOffline,
    ShutDownBroker,
    UndeleteTopic,
)
from pybroker.broker.cluster.quorum_events import RegisterBroker
from pybroker.broker.controller.decision import Decision, rule_of
from pybroker.broker.controller.decision_modules import DECISION_MODULES
from pybroker.broker.controller.internal_events import AdvanceDeletions, BrokersChanged
from pybroker.broker.metadata.broadcast import Broadcast
from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrType,
    StopReplicaRequest,
    UpdateCluster,
    UpdateMetadataRequest,
    refusal,
)
from pybroker.broker.metadata.deletion_records import DELETING
from pybroker.broker.metadata.image import BrokerImage, ClusterImage, ImageDelta, with_changed_states
from pybroker.broker.metadata.records.deltas import from_records, to_records
from pybroker.broker.metadata.znodes import RunningNode
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.metadata_publisher import BrokerMetadataPublisher, in_full
from pybroker.broker.replicas.partition_visibility import PartitionVisibility
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from tests.support.memory_quorum import MemoryQuorum
from tests.unit.controller.test_decisions import ENDPOINT, arrival

BROKERS = (1, 2, 3, 4)
assert DECISION_MODULES, "the decisions are registered"


class RandomEvents:
    """Makes events that fit an image; the same ones for the same `seed`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._kinds: list[Callable[[ClusterImage], Event[Any]]] = [
            self._create,
            self._create,
            self._grow,
            self._isr,
            self._isr,
            self._config,
            self._delete,
            self._confirm,
            self._undelete,
            self._arrive,
            self._lose,
            self._offline,
            self._leave,
        ]

    def event(self, image: ClusterImage) -> Event[Any] | None:
        """Return an event; None if the chosen kind does not fit now."""
        try:
            return self._random.choice(self._kinds)(image)
        except IndexError:
            return None

    def _topic(self, image: ClusterImage) -> Any:
        return self._random.choice(sorted(image.topics.values(), key=lambda topic: topic.name))

    def _create(self, image: ClusterImage) -> Event[Any]:
        self._count += 1
        topic = NewTopic(f"t{self._count}", self._random.randrange(1, 5), min(3, len(image.brokers)), None, {})
        return CreateTopics((topic,), False, self._random.randrange(100), self._count)

    def _grow(self, image: ClusterImage) -> Event[Any]:
        topic = self._topic(image)
        return CreatePartitions((NewPartitions(topic.name, len(topic.partitions) + 2, None),), False, 1)

    def _isr(self, image: ClusterImage) -> Event[Any]:
        topic = self._topic(image)
        index = self._random.randrange(len(topic.partitions))
        state = topic.partitions[index]
        isr = tuple(
            (member, image.brokers[member].epoch)
            for member in state.replicas
            if member in image.brokers and (member == state.leader or self._random.random() < 0.6)
        )
        leader = image.brokers[state.leader] if state.leader in image.brokers else next(iter(image.brokers.values()))
        change = IsrChange(topic.topic_id, index, state.leader_epoch, isr, state.state_version)
        return AlterIsr(leader.broker_id, leader.epoch, (change,))

    def _config(self, image: ClusterImage) -> Event[Any]:
        self._count += 1
        change = ConfigChange("topic", self._topic(image).name, {"retention.ms": str(self._count)})
        return AlterConfigs((change,))

    def _delete(self, image: ClusterImage) -> Event[Any]:
        return DeleteTopics((self._topic(image).topic_id,), "User:a", 1_000, 50)

    def _deletion(self, image: ClusterImage) -> Any:
        return self._random.choice(sorted(image.deletions.values(), key=lambda record: record.topic))

    def _confirm(self, image: ClusterImage) -> Event[Any]:
        record = self._deletion(image)
        if record.state != DELETING:
            raise IndexError
        if self._random.random() < 0.5:
            return AdvanceDeletions(confirmed=((record.topic_id, tuple(sorted(record.unconfirmed))[:1]),))
        return AdvanceDeletions(staged=(record.topic_id,))

    def _undelete(self, image: ClusterImage) -> Event[Any]:
        return UndeleteTopic(self._deletion(image).topic_id, None, "User:a", 1_001)

    def _arrive(self, image: ClusterImage) -> Event[Any]:
        self._count += 1
        return BrokersChanged((arrival(self._random.choice(BROKERS), 1_000 + self._count, intact=False),))

    def _lose(self, image: ClusterImage) -> Event[Any]:
        if len(image.brokers) < 3:
            raise IndexError
        return BrokersChanged(gone=(self._random.choice(sorted(image.brokers)),))

    def _offline(self, image: ClusterImage) -> Event[Any]:
        topic = self._topic(image)
        return ReplicasOffline(self._random.choice(sorted(image.brokers)), ((topic.topic_id, 0),))

    def _leave(self, image: ClusterImage) -> Event[Any]:
        broker = image.brokers[self._random.choice(sorted(image.brokers))]
        return ShutDownBroker(broker.broker_id, broker.epoch)


def decided(image: ClusterImage, event: Event[Any] | None) -> Decision | None:
    if event is None:
        return None
    rule = rule_of(event)
    try:
        decision: Decision = rule.decide(image, event)
    except KafkaError:
        return None
    return None if decision.delta.empty else decision


@pytest.mark.parametrize("seed", range(8))
def test_each_broker_derives_the_controllers_messages(seed: int) -> None:
    events, broadcast = RandomEvents(seed), Broadcast(9, "PLAINTEXT")
    here = there = ClusterImage.initial(3).apply(
        ImageDelta(brokers=tuple(BrokerImage(one, 1, (ENDPOINT,), None) for one in BROKERS[:3]))
    )
    kinds: set[str] = set()
    for number in range(300):
        event = events.event(here)
        decision = decided(here, event)
        if decision is None:
            continue
        before, here = here, here.apply(decision.delta)
        sent = broadcast.changes(before, here, decision.delta, number)
        before_there = there
        # Use the change as the log returns it: other objects, and only the changed states of a topic.
        states_only = from_records(before, to_records(before, decision.delta))
        there = there.apply(states_only)
        assert there == here
        full = in_full(there, states_only)
        for broker_id in here.brokers:
            derived = broadcast.changes(before_there, there, full, number, {broker_id})
            assert derived == {broker_id: sent[broker_id]}
        kinds |= {type(message).__name__ for messages in sent.values() for message in messages}
    assert kinds >= {"LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest", "UpdateCluster"}


# --- the publisher ----------------------------------------------------------------------------------------------------


class Scene:
    """A publisher of broker 1, and a leader that decides with the real functions."""

    def __init__(self) -> None:
        self.quorum = MemoryQuorum()
        self.log = self.quorum.node(1)
        self.loader = MetadataLoader(self._fatal)
        self.view = KnownCluster([])
        self.offsets = AppliedOffsets()
        self.incarnation = Uuid.random()
        self.orders: list[ControlRequest] = []
        self.said: list[tuple[str, int]] = []
        self.expired: list[tuple[int, int]] = []
        self.publisher = BrokerMetadataPublisher(
            broker_id=1,
            incarnation=self.incarnation,
            between="PLAINTEXT",
            loader=self.loader,
            view=self.view,
            visibility=PartitionVisibility(1, self.offsets),
            execute=self._execute,
            expire_fences=self._expire,
            results=self,
            listener=self,
            on_fatal=self._fatal,
        )

    @staticmethod
    def _fatal(problem: Exception) -> None:
        raise AssertionError(problem)

    async def _execute(self, order: ControlRequest) -> ControlResponse:
        self.orders.append(order)
        return refusal(order, 0)

    async def _expire(self, controller_epoch: int, broker_epoch: int) -> None:
        self.expired.append((controller_epoch, broker_epoch))

    def take(self, order: ControlRequest, response: ControlResponse) -> bool:
        return False

    def registered(self, broker_epoch: int) -> None:
        self.said.append(("registered", broker_epoch))

    def unregistered(self) -> None:
        self.said.append(("unregistered", -1))

    def applied(self, offset: int) -> None:
        pass

    async def decide(self, event: Event[Any]) -> None:
        """Decide and commit; return when the publisher has applied it."""
        image = self.loader.image
        decision: Decision = rule_of(event).decide(image, event)
        end = self.quorum.append(to_records(image, decision.delta))
        await self.view.reached(self.quorum.epoch, end)

    async def elect(self, node_id: int) -> None:
        """Begin an epoch; return when the publisher has applied it."""
        self.quorum.elect(node_id)
        await self.view.reached(self.quorum.epoch, self.quorum.end)

    async def register(self, broker_id: int = 1, incarnation: Uuid | None = None) -> None:
        """Register a broker, by default the publisher's."""
        run = RunningNode("boot", "commit", (f"dir-{broker_id}",))
        await self.decide(RegisterBroker(broker_id, incarnation or self.incarnation, (ENDPOINT,), None, run))

    def taken(self) -> list[ControlRequest]:
        """Return the orders since the last call."""
        orders, self.orders = self.orders, []
        return orders


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    scene.publisher.start()
    scene.log.listen(scene.loader)
    await scene.elect(9)
    yield scene
    await scene.publisher.stop()


def create(name: str) -> CreateTopics:
    return CreateTopics((NewTopic(name, 2, 1, {0: (1,), 1: (1,)}, {}),), False, 0, 1)


async def test_the_image_is_shown_before_the_registration_and_orders_follow_it(scene: Scene) -> None:
    await scene.register(2, Uuid.random())
    await scene.register(1, Uuid.random())  # a previous process, whose registration has not ended
    assert set(scene.view.image.brokers) == {1, 2}
    assert (scene.taken(), scene.said) == ([], [])
    await scene.register()
    whole, *shown = scene.taken()
    assert isinstance(whole, LeaderAndIsrRequest)
    assert whole.type == LeaderAndIsrType.FULL
    assert all(isinstance(one, UpdateMetadataRequest) for one in shown)
    assert scene.said == [("registered", scene.view.image.brokers[1].epoch)]


async def test_orders_carry_the_change(scene: Scene) -> None:
    await scene.register()
    scene.taken()
    await scene.decide(create("a"))
    order, shown = scene.taken()
    assert isinstance(order, LeaderAndIsrRequest)
    assert [topic.topic_name for topic in order.topic_states] == ["a"]
    assert isinstance(shown, UpdateMetadataRequest)
    assert not isinstance(order, UpdateCluster)


async def test_pending_orders_are_repeated_in_a_new_epoch(scene: Scene) -> None:
    await scene.register()
    await scene.decide(create("a"))
    topic_id = scene.loader.image.topics["a"].topic_id
    await scene.decide(DeleteTopics((topic_id,), "User:a", 1_000, 50))
    scene.taken()
    await scene.elect(8)
    stops = [order for order in scene.taken() if isinstance(order, StopReplicaRequest)]
    assert [topic.topic_id for stop in stops for topic in stop.topic_states] == [topic_id]
    assert scene.expired[-1] == (scene.quorum.epoch, scene.view.image.brokers[1].epoch)
    await scene.decide(AdvanceDeletions(staged=(topic_id,)))
    await scene.elect(9)
    assert not [order for order in scene.taken() if isinstance(order, StopReplicaRequest)]


async def test_a_new_controller_is_shown_to_clients(scene: Scene) -> None:
    await scene.register()
    scene.taken()
    await scene.elect(8)
    await asyncio.sleep(0)
    (shown,) = scene.taken()
    assert isinstance(shown, UpdateMetadataRequest)
    assert (shown.controller_id, shown.topic_states) == (8, [])


async def test_a_fenced_broker_gets_no_orders_until_it_registers_again(scene: Scene) -> None:
    await scene.register()
    await scene.register(2, Uuid.random())
    first = scene.view.image.brokers[1].epoch
    await scene.decide(BrokersChanged(gone=(1,)))
    scene.taken()
    await scene.decide(CreateTopics((NewTopic("b", 1, 1, {0: (2,)}, {}),), False, 0, 1))
    assert scene.taken() == []
    await scene.register()
    assert isinstance(scene.taken()[0], LeaderAndIsrRequest)
    second = scene.view.image.brokers[1].epoch
    assert second > first
    assert scene.said == [("registered", first), ("unregistered", -1), ("registered", second)]


async def test_a_change_counts_as_applied_when_its_orders_are_carried_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.register()
    release = asyncio.Event()

    async def slow(order: ControlRequest) -> ControlResponse:
        await release.wait()
        return refusal(order, 0)

    monkeypatch.setattr(scene.publisher, "_execute", slow)
    creating = asyncio.create_task(scene.decide(create("a")))
    while "a" not in scene.view.image.topics:  # noqa: ASYNC110  (the image is shown first)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not creating.done()
    release.set()
    await creating


def test_states_become_topics() -> None:
    image = ClusterImage.initial(1).apply(ImageDelta(brokers=(BrokerImage(1, 1, (ENDPOINT,), None),)))
    image = image.apply(rule_of(create("a")).decide(image, create("a")).delta)
    topic = image.topics["a"]
    changed = msgspec.structs.replace(
        topic, partitions=(topic.partitions[0], msgspec.structs.replace(topic.partitions[1], leader=-1))
    )
    states_only = with_changed_states(image, ImageDelta(topics=(changed,)))
    assert states_only.topics == ()
    assert in_full(image.apply(states_only), states_only) == ImageDelta(topics=(changed,))


def leaders(order: ControlRequest) -> dict[str, list[int]]:
    """Return leaders by topic in an UpdateMetadata."""
    assert isinstance(order, UpdateMetadataRequest)
    return {topic.topic_name: [state.leader for state in topic.partition_states] for topic in order.topic_states}


async def shown_by(scene: Scene, broker_id: int, offset: int) -> list[ControlRequest]:
    """Return the clients' view after a broker has applied the log up to an offset."""
    scene.taken()
    scene.offsets.note(broker_id, offset)
    await asyncio.sleep(0.01)
    return scene.taken()


async def test_clients_see_a_partition_when_its_leader_has_applied_it_or_is_fenced(scene: Scene) -> None:
    for broker_id in (2, 3):
        await scene.register(broker_id, Uuid.random())
    await scene.register()
    scene.taken()

    await scene.decide(assigned("theirs", 2, 3))
    first = scene.quorum.end
    assert leaders(scene.taken()[-1]) == {}
    await scene.decide(assigned("mixed", 3, 1, 2))
    second = scene.quorum.end
    assert leaders(scene.taken()[-1]) == {"mixed": [-1, 1, -1]}
    topics = [topic.topic_id for topic in scene.view.image.topics.values()]
    waits = asyncio.ensure_future(scene.publisher._visibility.shown(topics))

    assert await shown_by(scene, 2, first - 1) == []
    (shown,) = await shown_by(scene, 2, first)
    assert leaders(shown) == {"theirs": [2, -1]}
    (shown,) = await shown_by(scene, 2, second)
    assert leaders(shown) == {"mixed": [2]}
    assert not waits.done()
    await scene.decide(BrokersChanged(gone=(3,)))
    states = [leaders(order) for order in scene.taken() if isinstance(order, UpdateMetadataRequest)]
    assert {name: found for state in states for name, found in state.items()} == {"theirs": [-1], "mixed": [-1]}
    await waits


def assigned(name: str, *brokers: int) -> CreateTopics:
    """A topic whose partitions have one replica each, on these brokers."""
    assignment = {index: (broker_id,) for index, broker_id in enumerate(brokers)}
    return CreateTopics((NewTopic(name, len(brokers), 1, assignment, {}),), False, 0, 1)


async def test_a_broker_that_registers_shows_leaders_that_have_applied_their_change(scene: Scene) -> None:
    """Others have the partition, too, but no leader: clients must not take the topic for missing."""
    for broker_id in (1, 2, 3):
        await scene.register(broker_id, Uuid.random())
    await scene.decide(assigned("old", 2, 3))
    old = scene.quorum.end
    await scene.decide(assigned("new", 2, 3, 1))
    scene.offsets.note(2, scene.quorum.end)
    scene.offsets.note(3, old)
    assert scene.taken() == []
    await scene.register()
    assert leaders(scene.taken()[1]) == {"old": [2, 3], "new": [2, -1, 1]}
    (shown,) = await shown_by(scene, 3, scene.quorum.end)
    assert leaders(shown) == {"new": [3]}


async def test_a_broker_that_registers_again_holds_what_it_has_not_seen(scene: Scene) -> None:
    await scene.register(2, Uuid.random())
    await scene.register()
    await scene.decide(assigned("held", 2))
    await scene.decide(BrokersChanged(gone=(1,)))
    before = scene.quorum.end
    await scene.decide(assigned("later", 2))
    scene.offsets.note(2, before)
    scene.taken()
    await scene.register()
    assert leaders(scene.taken()[1]) == {"held": [2], "later": [-1]}
    (shown,) = await shown_by(scene, 2, scene.quorum.end)
    assert leaders(shown) == {"later": [2]}


async def test_a_deleted_topic_is_held_no_more(scene: Scene) -> None:
    await scene.register(2, Uuid.random())
    await scene.register()
    await scene.decide(CreateTopics((NewTopic("a", 1, 1, {0: (2,)}, {}),), False, 0, 1))
    topic_id = scene.view.image.topics["a"].topic_id
    waits = asyncio.ensure_future(scene.publisher._visibility.shown([topic_id]))
    await scene.decide(DeleteTopics((topic_id,), "User:a", 1_000, 50))
    await waits
    assert await shown_by(scene, 2, scene.quorum.end) == []
