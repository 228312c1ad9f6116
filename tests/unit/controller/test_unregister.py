"""Brokers that will not come back are refused while the cluster may need them, and are then forgotten everywhere."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from pybroker.broker.cluster.events import (
    CreateTopics,
    DeleteTopics,
    FoundReplicas,
    FoundTopic,
    NewReplicas,
    NewTopic,
    ReassignPartitions,
    UndeleteTopic,
    UnregisterBroker,
)
from pybroker.broker.controller.broker_decisions import decide_brokers
from pybroker.broker.controller.deletion_tracker import Deletions
from pybroker.broker.controller.internal_events import AdvanceDeletions, BrokerForgotten, BrokersChanged, FinishUndelete
from pybroker.broker.controller.pending_undeletes import PendingUndeletes
from pybroker.broker.controller.reassignment_decisions import decide_reassign
from pybroker.broker.controller.topic_decisions import decide_create
from pybroker.broker.controller.topic_deletion import decide_advance, decide_delete, decide_found
from pybroker.broker.controller.undelete import decide_finish_undelete, decide_undelete
from pybroker.broker.controller.unregister import NAMED_MAX, decide_forgotten, decide_unregister
from pybroker.broker.metadata.deletion_records import DELETING, FOUND, STAGED, UNDELETING
from pybroker.broker.metadata.image import UNREGISTERED, ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import arrival
from tests.unit.controller.test_large_topics import Nodelike, after, parts_of, same_as_loaded

DEAD = 3
OTHER = Uuid.random()
pytestmark = pytest.mark.checklist("R30")


def same(store: Nodelike, image: ClusterImage) -> None:
    """The controller's image equals the image that another controller loads."""
    same_as_loaded(store, image)
    loaded = store.copy().load(1)
    assert (loaded.deletions, loaded.broker_epochs) == (image.deletions, image.broker_epochs)
    assert {one.name: one.departed for one in loaded.topics.values() if one.departed} == {
        one.name: one.departed for one in image.topics.values() if one.departed
    }


def begun(store: Nodelike) -> ClusterImage:
    """Return brokers 1 to 3, each in its first broker epoch."""
    image = store.load(1)
    lives = tuple(arrival(number, number + 10) for number in (1, 2, 3))
    return after(store, image, decide_brokers(image, BrokersChanged(lives)))


def with_topic(store: Nodelike, image: ClusterImage, name: str, *replicas: tuple[int, ...]) -> ClusterImage:
    topic = NewTopic(name, -1, -1, dict(enumerate(replicas)), {})
    return after(store, image, decide_create(image, CreateTopics((topic,), False, 0, 1)))


def without(store: Nodelike, image: ClusterImage, name: str) -> tuple[ClusterImage, Uuid]:
    topic_id = image.topics[name].topic_id
    return after(store, image, decide_delete(image, DeleteTopics((topic_id,), "u", 9, 100))), topic_id


def died(store: Nodelike, image: ClusterImage) -> ClusterImage:
    return after(store, image, decide_brokers(image, BrokersChanged((), (DEAD,))))


def unregistered(store: Nodelike, image: ClusterImage) -> ClusterImage:
    return after(store, image, decide_unregister(image, UnregisterBroker(DEAD)))


def refusal(image: ClusterImage, broker_id: int = DEAD) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        decide_unregister(image, UnregisterBroker(broker_id))
    return refused.value


def test_who_runs_or_has_replicas_is_refused() -> None:
    store = Nodelike()
    image = with_topic(store, begun(store), "a", *[(1, DEAD)] * (NAMED_MAX + 1))
    assert (refusal(image).code, "is registered as running" in str(refusal(image))) == (ErrorCode.INVALID_REQUEST, True)
    image = died(store, image)
    assert refusal(image).code == ErrorCode.INVALID_REQUEST
    assert f"replicas of {NAMED_MAX + 1} partitions (a-0, a-1," in str(refusal(image))
    assert f"a-{NAMED_MAX}" not in str(refusal(image))
    moved = tuple(NewReplicas("a", index, (1, 2)) for index in range(NAMED_MAX + 1))
    image = after(store, image, decide_reassign(image, ReassignPartitions(moved)))
    assert refusal(image).code == ErrorCode.INVALID_REQUEST, "its replicas are still to go"
    assert refusal(image, 99).code == ErrorCode.BROKER_ID_NOT_REGISTERED
    damaged = msgspec.structs.replace(died(store, begun(Nodelike())), damaged={"b": "no JSON"})
    assert "topic b" in str(refusal(damaged))


def test_deletions_wait_for_it_no_more() -> None:
    """Deletions that wait for other brokers continue to wait; a deletion that all others have confirmed is staged."""
    store = Nodelike()
    image = with_topic(store, with_topic(store, begun(store), "a", (1, DEAD)), "b", (DEAD,))
    image = died(store, image)
    image, a = without(store, image, "a")
    image, b = without(store, image, "b")
    image = unregistered(store, image)
    same(store, image)
    assert image.deletions[a].unconfirmed == {1}
    waiting = image.deletions[a]
    assert (waiting.brokers, waiting.holders(0), waiting.in_sync(0), waiting.replicas(0)) == ({1}, (1,), (1,), (1,))
    assert (waiting.held_by(DEAD), waiting.held_by(1)) == ([], [0])
    assert (image.deletions[b].unconfirmed, image.deletions[b].state) == (set(), DELETING)
    assert image.broker_epochs[DEAD] == UNREGISTERED
    assert refusal(image).code == ErrorCode.BROKER_ID_NOT_REGISTERED
    image = after(store, image, decide_forgotten(image, BrokerForgotten(DEAD)))
    same(store, image)
    assert DEAD not in image.broker_epochs
    image = after(store, image, decide_advance(image, AdvanceDeletions(staged=(b,))))
    assert image.deletions[b].state == STAGED
    refused = decide_undelete(image, UndeleteTopic(b, None, "u", 10)).reply
    assert isinstance(refused, KafkaError)
    assert "unregistered" in str(refused), "nobody else has a record of it"
    # A later broker with the same id gets no information about these replicas.
    image = after(store, image, decide_brokers(image, BrokersChanged((arrival(DEAD, 77),))))
    assert image.broker_epochs[DEAD] == 77
    assert decide_forgotten(image, BrokerForgotten(DEAD)).operations == (), "it is back"


def test_a_deletion_without_topic_ids_gives_its_name_up() -> None:
    store = Nodelike()
    image = msgspec.structs.replace(begun(store), topic_ids=False)
    image = died(store, with_topic(store, image, "a", (1, DEAD)))
    image, topic_id = without(store, image, "a")
    image = after(store, image, decide_advance(image, AdvanceDeletions(confirmed=((topic_id, (1,)),))))
    assert "a" in image.reserved
    image = unregistered(store, image)
    assert "a" not in image.reserved
    assert not store.orphans()


def test_an_undeletion_goes_on_without_it() -> None:
    """Brokers that have responded are not asked again."""
    store = Nodelike()
    image = with_topic(store, begun(store), "a", (1, DEAD), (DEAD, 1))
    image, topic_id = without(store, died(store, image), "a")
    image = after(store, image, decide_undelete(image, UndeleteTopic(topic_id, None, "u", 10)))
    restores = PendingUndeletes()
    restores.begin(image.deletions[topic_id])
    (one,) = restores._restores.values()
    one.waiting.discard(1)
    one.holders = {0: [1], 1: [1]}
    image = unregistered(store, image)
    restores.begin(image.deletions[topic_id])
    assert restores.ready(image) == [FinishUndelete(topic_id, None, {0: (1,), 1: (1,)})]
    image = after(store, image, decide_finish_undelete(image, restores.ready(image)[0]))
    same(store, image)
    assert [(one.replicas, one.leader) for one in image.topics["a"].partitions] == [((1,), 1), ((1,), 1)]


async def test_an_undeletion_that_waited_for_it_alone_ends() -> None:
    store = Nodelike()
    image = with_topic(store, begun(store), "a", (DEAD,))
    image, topic_id = without(store, died(store, image), "a")
    image = after(store, image, decide_undelete(image, UndeleteTopic(topic_id, None, "u", 10)))
    assert image.deletions[topic_id].state == UNDELETING
    asked: asyncio.Future[FinishUndelete] = asyncio.get_running_loop().create_future()

    class FakeController:
        async def submit(self, event: FinishUndelete) -> None:
            asked.set_result(event)
            await asyncio.Event().wait()

    deletions = Deletions(None, FakeController(), lambda *_: None, lambda: 10)  # type: ignore[arg-type]
    deletions.start(image)
    await asyncio.sleep(0)
    assert not asked.done(), "it may come back"
    before = image
    decision = decide_unregister(image, UnregisterBroker(DEAD))
    deletions.observe(before.apply(decision.delta), decision.delta)
    event = await asyncio.wait_for(asked, 30)
    assert event.problem is not None
    await deletions.stop()


def test_topics_that_have_left_it_wait_for_it_no_more() -> None:
    store = Nodelike()
    image = died(store, with_topic(store, with_topic(store, begun(store), "a", (1, DEAD)), "b", (1, 2)))
    image = after(store, image, decide_reassign(image, ReassignPartitions((NewReplicas("a", 0, (1,)),))))
    assert set(image.topics["a"].departed[0]) == {DEAD}
    topic = image.topics["a"]
    departed = {0: {**topic.departed[0], 2: 5}}
    image = image.apply(ImageDelta(topics=(msgspec.structs.replace(topic, departed=departed),)))
    decision = decide_unregister(image, UnregisterBroker(DEAD))
    image = after(store, image, decision)
    assert image.topics["a"].departed == {0: {2: 5}}
    same(store, image)
    # The broker epoch is removed last: a repeated command finds the remaining work after a crash.
    last = parts_of(decision)[-1][-1]
    assert isinstance(last, Set)
    assert last.path == "/brokers/epochs"


def test_what_only_it_had_found_is_listed_when_it_is_back() -> None:
    store = Nodelike()
    image = begun(store)
    mine, ours = FoundTopic(OTHER, "lost", (0,), 4), FoundTopic(Uuid.random(), "also", (0,), 4)
    for broker_id, topics in ((DEAD, (mine, ours)), (1, (ours,))):
        image = after(store, image, decide_found(image, FoundReplicas(broker_id, topics, 7)))
    image = unregistered(store, died(store, image))
    same(store, image)
    assert OTHER not in image.deletions
    assert (image.deletions[ours.topic_id].state, image.deletions[ours.topic_id].brokers) == (FOUND, {1})
    image = after(store, image, decide_brokers(image, BrokersChanged((arrival(DEAD, 77),))))
    image = after(store, image, decide_found(image, FoundReplicas(DEAD, (mine, ours), 9)))
    same(store, image)
    assert image.deletions[OTHER].brokers == {DEAD}
    assert image.deletions[ours.topic_id].brokers == {1, DEAD}
