"""Steps of controllers: become the controller, decide, and send messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pybroker.broker.metadata.store_history import ControllerHistory, StoredTerm
from tests.model.state import (
    BROKERS,
    CLOSED,
    CONTROLLERS,
    DELETING,
    LIVE,
    UNDELETING,
    Budget,
    Controller,
    Faults,
    Message,
    Record,
    State,
    Store,
    Topic,
    put,
    refuses,
    resigned,
    write,
)


def elections(state: State, faults: Faults) -> Iterator[tuple[str, State]]:
    if not state.budget.elections:
        return
    for number in CONTROLLERS:
        broker = state.brokers[number]
        if not broker.up or state.controllers[number] is not None or refuses(state, broker, faults):
            continue
        epoch, decision = state.store.controller_epoch + 1, state.store.decision + state.counted
        # The term's word is random: after a restore it differs.
        office = StoredTerm(f"{epoch}{'b' if state.set_back else 'a'}", decision)
        offices = (*state.store.offices, (epoch, office)) if state.counted else ()
        store = state.store._replace(controller_epoch=epoch, decision=decision, offices=offices)
        topic, records = (None, frozenset[Record]()) if faults.full_before_loaded else (store.topic, store.records)
        alive = tuple(one.epoch if one.up else -1 for one in state.brokers)
        controller = Controller(store.controller_epoch, topic, records, alive, ((),) * len(BROKERS))
        for broker_id in BROKERS:
            if alive[broker_id] >= 0:
                controller = send_full(controller, broker_id, seen(store))
        if faults.full_before_loaded:
            controller = controller._replace(topic=store.topic, records=store.records)
        # This works whether or not the previous controller notices.
        after = state._replace(store=store, budget=state.budget._replace(elections=state.budget.elections - 1))
        yield f"broker {number} is elected", after._replace(controllers=put(after.controllers, number, controller))


def seen(store: Store) -> ControllerHistory:
    return ControllerHistory(store.controller_epoch, store.offices[-1][1].word if store.offices else "", store.decision)


def _send(controller: Controller, broker_id: int, kind: str, seen: ControllerHistory, topic_id: int = 0) -> Controller:
    if controller.alive[broker_id] < 0:
        return controller
    topic = controller.topic
    named = topic if topic is not None and broker_id in topic.replicas and kind != "others" else None
    message = Message(kind, controller.epoch, controller.alive[broker_id], seen, named, topic, topic_id)
    return controller._replace(queues=put(controller.queues, broker_id, (*controller.queues[broker_id], message)))


def send_full(controller: Controller, broker_id: int, seen: ControllerHistory) -> Controller:
    controller = _send(controller, broker_id, "full", seen)
    for record in sorted(controller.records):
        if broker_id in record.holders and record.state != UNDELETING:
            controller = _send(controller, broker_id, "stop", seen, record.topic_id)
        if broker_id in record.replicas and record.state == UNDELETING:
            controller = _send(controller, broker_id, "restore", seen, record.topic_id)
    if controller.topic is not None and any(broker_id == one for one, _ in controller.topic.departed):
        controller = _send(controller, broker_id, "stop", seen, controller.topic.topic_id)
    return controller


def decisions(state: State, number: int, controller: Controller, faults: Faults) -> Iterator[tuple[str, State]]:
    for name, store, budget, messages in _possible(state, controller, faults):
        after = write(state, number, store)
        if after is None:
            yield f"controller {number} is told that it is none any more", resigned(state, number)
            return
        after = after._replace(budget=budget, **_truth(state, after.store))
        # The controller may die between the write and the first message.
        yield f"{name}, and controller {number} dies", resigned(after, number)
        told = controller._replace(topic=after.store.topic, records=after.store.records)
        for broker_id, kind, topic_id in messages:
            told = _send(told, broker_id, kind, seen(after.store), topic_id)
        yield name, after._replace(controllers=put(after.controllers, number, told))


def _truth(state: State, after: Store) -> dict[str, Any]:
    """Return the facts that a decision has established, whatever the store contains later."""
    before = state.store.topic
    deleted, left = state.deleted, state.left
    if before is not None and after.topic is None:
        deleted |= {before.topic_id}
    if after.topic is not None:
        deleted -= {after.topic.topic_id}
        if before is not None and before.topic_id == after.topic.topic_id:
            left |= {(before.topic_id, broker_id) for broker_id in before.replicas - after.topic.replicas}
        left -= {(after.topic.topic_id, broker_id) for broker_id in after.topic.replicas}
    return {"deleted": deleted, "left": left}


Decision = tuple[str, Store, Budget, list[tuple[int, str, int]]]


def _possible(state: State, controller: Controller, faults: Faults) -> Iterator[Decision]:
    """Return the decisions that are possible in the controller's state."""
    store, budget, topic = state.store, state.budget, controller.topic
    alive = [broker_id for broker_id in BROKERS if controller.alive[broker_id] >= 0]
    if topic is None and budget.creates:
        for replicas in ((0, 1), (1, 2)):
            leaders = [broker_id for broker_id in replicas if broker_id in alive]
            if leaders:
                made = Topic(
                    store.next_id, frozenset(replicas), frozenset(leaders), leaders[0], store.floor + 1, committed=0
                )
                yield (
                    f"create {made.topic_id} on {replicas}",
                    store._replace(topic=made, next_id=store.next_id + 1, floor=made.epoch),
                    budget._replace(creates=budget.creates - 1),
                    [(broker_id, "incremental", 0) for broker_id in replicas],
                )
    if topic is not None and budget.deletes:
        record = Record(
            topic.topic_id,
            DELETING,
            _holders(state, topic, faults),
            topic.isr,
            topic.committed,
            frozenset(),
            topic.replicas,
        )
        yield (
            f"delete {topic.topic_id}",
            store._replace(topic=None, records=store.records | {record}, floor=max(store.floor, topic.epoch)),
            budget._replace(deletes=budget.deletes - 1),
            [(broker_id, "stop", topic.topic_id) for broker_id in sorted(record.holders)],
        )
    if topic is not None:
        yield from _reassignment(state, topic, alive)
    if budget.others:
        everybody: list[tuple[int, str, int]] = [(broker_id, "others", 0) for broker_id in BROKERS]
        yield "another topic changes", store, budget._replace(others=budget.others - 1), everybody
    for record in sorted(controller.records):
        others = store.records - {record}
        if record.state == DELETING:
            yield (
                f"close {record.topic_id}",
                store._replace(records=others | {record._replace(state=CLOSED)}),
                budget,
                [],
            )
            if topic is None and budget.undeletes:
                yield (
                    f"undelete {record.topic_id}",
                    store._replace(records=others | {record._replace(state=UNDELETING)}),
                    budget._replace(undeletes=budget.undeletes - 1),
                    [(broker_id, "restore", record.topic_id) for broker_id in sorted(record.replicas)],
                )
        if record.state == UNDELETING and topic is None:
            eligible = record.replicas if faults.any_replica_leads_after_undelete else record.isr
            leaders = [broker_id for broker_id in alive if broker_id in record.restored & eligible]
            if faults.any_replica_leads_after_undelete:
                leaders.reverse()
            if leaders:
                left = sorted(record.holders - record.replicas)
                back = Topic(
                    record.topic_id,
                    record.replicas,
                    frozenset(leaders[:1]),
                    leaders[0],
                    store.floor + 1,
                    record.committed,
                    frozenset((broker_id, store.floor + 1) for broker_id in left),
                )
                yield (
                    f"{record.topic_id} is back",
                    store._replace(topic=back, records=others, floor=back.epoch),
                    budget,
                    [
                        *((broker_id, "stop", record.topic_id) for broker_id in left),
                        *((broker_id, "incremental", 0) for broker_id in sorted(record.replicas)),
                    ],
                )
        if record.state == CLOSED and not record.holders:
            yield f"forget {record.topic_id}", store._replace(records=others), budget, []


def _reassignment(state: State, topic: Topic, alive: list[int]) -> Iterator[Decision]:
    """Add a replica; when it has every record, it joins the ISR; then an old replica is removed."""
    store, budget = state.store, state.budget
    everybody = sorted(topic.replicas)
    if budget.reassignments and len(topic.replicas) == 2:
        (new,) = set(BROKERS) - topic.replicas
        if new in alive:
            grown = topic._replace(
                replicas=topic.replicas | {new},
                epoch=topic.epoch + 1,
                departed=frozenset(one for one in topic.departed if one[0] != new),
            )
            yield (
                f"{new} is to have a replica of {topic.topic_id}",
                store._replace(topic=grown, floor=grown.epoch),
                budget._replace(reassignments=budget.reassignments - 1),
                [(broker_id, "incremental", 0) for broker_id in sorted(grown.replicas)],
            )
    for broker_id in sorted(topic.replicas - topic.isr):
        mine = [one for one in state.brokers[broker_id].directories if one.topic_id == topic.topic_id]
        # The leader proposes it, with the broker epoch of the broker that has fetched.
        if mine and mine[0].records >= topic.committed and state.brokers[broker_id].served == topic.topic_id:
            joined = topic._replace(isr=topic.isr | {broker_id})
            yield f"{broker_id} is in sync for {topic.topic_id}", store._replace(topic=joined), budget, []
    if len(topic.replicas) == 3 and topic.isr == topic.replicas:
        for old in sorted(topic.replicas - {topic.leader}):
            moved = topic._replace(
                replicas=topic.replicas - {old},
                isr=topic.isr - {old},
                epoch=topic.epoch + 1,
                departed=topic.departed | {(old, topic.epoch + 1)},
            )
            messages = [(broker_id, "incremental", 0) for broker_id in everybody if broker_id != old]
            yield (
                f"{topic.topic_id} leaves {old}",
                store._replace(topic=moved, floor=moved.epoch),
                budget,
                [*messages, (old, "stop", topic.topic_id)],
            )


def _holders(state: State, topic: Topic, faults: Faults) -> frozenset[int]:
    """Return every broker that ever had a replica and has not confirmed its removal. Brokers with staged data are
    marked in the store."""
    aside = {
        broker_id
        for broker_id, broker in enumerate(state.brokers)
        if any(one.topic_id == topic.topic_id and one.place != LIVE for one in broker.directories)
    }
    departed = set() if faults.departed_forgotten else {broker_id for broker_id, _ in topic.departed}
    return topic.replicas | aside | departed
