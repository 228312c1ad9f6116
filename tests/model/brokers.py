"""Steps of brokers: executing orders, copying, removing data, dying and restarting."""

from __future__ import annotations

from collections.abc import Iterator

from pybroker.broker.replicas.stray_reconciliation import Claim, Evidence, FoundDirectory, ReconcileOutcome, decide
from tests.model.controllers import seen, send_full
from tests.model.state import (
    BROKERS,
    CLOSED,
    CONTROLLERS,
    DELAYED,
    DELETING,
    ENDLESS,
    LIVE,
    RESTORED,
    UNDELETING,
    BrokenError,
    Broker,
    Controller,
    Directory,
    Faults,
    Message,
    State,
    Topic,
    put,
    refuses,
    resigned,
    write,
)


def deliveries(state: State, number: int, controller: Controller, faults: Faults) -> Iterator[tuple[str, State]]:
    for broker_id in BROKERS:
        if not controller.queues[broker_id]:
            continue
        message, *rest = controller.queues[broker_id]
        taken = controller._replace(queues=put(controller.queues, broker_id, tuple(rest)))
        after = state._replace(controllers=put(state.controllers, number, taken))
        name = f"{message.kind} of controller {number} (epoch {message.controller_epoch}) at broker {broker_id}"
        broker = state.brokers[broker_id]
        if not broker.up:
            yield f"{name} finds it down", after
            continue
        if message.broker_epoch != broker.epoch:
            yield f"{name} was for an earlier life", after
            continue
        if message.controller_epoch < broker.controller_epoch and not faults.stale_controller_obeyed:
            yield f"{name} is refused", resigned(state, number)
            continue
        if refuses(state, broker, faults):
            yield f"{name}: the store was set back", after
            continue
        heard = broker._replace(
            controller_epoch=max(broker.controller_epoch, message.controller_epoch),
            # (The epoch alone proves nothing if the store was set back and an operator has accepted that.)
            seen=max(broker.seen or message.seen, message.seen) if state.counted else None,
        )
        yield name, _obey(after, number, broker_id, message, faults=faults, broker=heard)


def _obey(state: State, number: int, broker_id: int, message: Message, *, broker: Broker, faults: Faults) -> State:
    match message.kind:
        case "full" | "incremental" | "others":
            broker = _leader_and_isr(state, broker_id, broker, message, faults)
        case "stop":
            broker = _stop(broker, message, faults)
            return _confirmed(state, number, broker_id, broker, message)
        case "restore":
            return _restore(state, number, broker_id, broker, message)
    return state._replace(brokers=put(state.brokers, broker_id, broker))


def _leader_and_isr(state: State, broker_id: int, broker: Broker, message: Message, faults: Faults) -> Broker:
    named = message.topic
    full = message.kind == "full" or faults.incremental_deletes
    kept: set[Directory] = set()
    served = broker.served
    unclaimed = [one for one in broker.directories if named is None or one.topic_id != named.topic_id]
    mine = [one for one in broker.directories if named is not None and one.topic_id == named.topic_id]
    refused = False
    for directory in unclaimed:
        if directory.place != LIVE:
            kept.add(directory)
            continue
        claim = None
        if named is not None:
            claim = Claim(named.topic_id, named.epoch, bool(mine), len(unclaimed) == 1)
        evidence = _evidence(state, broker_id, directory, message.live)
        outcome = decide(FoundDirectory(directory.topic_id, directory.epoch), claim, evidence, full=full)
        if faults.absence_deletes and outcome is ReconcileOutcome.UNKNOWN:
            outcome = ReconcileOutcome.STAGED
        if faults.incremental_deletes and outcome is ReconcileOutcome.KEPT:
            outcome = ReconcileOutcome.STAGED
        place = {ReconcileOutcome.STAGED: DELAYED, ReconcileOutcome.UNKNOWN: ENDLESS}.get(outcome, LIVE)
        refused |= outcome is ReconcileOutcome.REFUSED
        kept.add(directory._replace(place=place))
        if place != LIVE and served == directory.topic_id:
            served = 0
    if named is not None and not refused:
        # A staged replica is restored as it is; a missing one is created empty, and copied from the leader.
        mine_now = mine[0] if mine else Directory(named.topic_id, LIVE, -1, 0)
        if mine_now.epoch <= named.epoch:
            mine_now = mine_now._replace(place=LIVE, epoch=named.epoch)
            served = named.topic_id
        kept.add(mine_now)
    elif mine:
        kept |= set(mine)
    if message.kind == "full" and named is None:
        served = 0
    return broker._replace(directories=frozenset(kept), served=served)


def _evidence(state: State, broker_id: int, directory: Directory, shown: Topic | None) -> Evidence:
    """Return the evidence from the store, read after a sync, and from the state that the controller has shown."""
    for record in state.store.records:
        if record.topic_id == directory.topic_id:
            return Evidence.RETURNING if record.state == UNDELETING else Evidence.DEAD
    if shown is not None and shown.topic_id == directory.topic_id:
        return Evidence.HERE if broker_id in shown.replicas else Evidence.ELSEWHERE
    return Evidence.NOTHING


def _stop(broker: Broker, message: Message, faults: Faults) -> Broker:
    moved = set()
    served = broker.served
    for directory in broker.directories:
        meant = directory.topic_id == message.topic_id or faults.stop_by_name
        if meant and directory.place in (LIVE, RESTORED):
            moved.add(directory._replace(place=DELAYED))
            if served == directory.topic_id:
                served = 0
        else:
            moved.add(directory)
    return broker._replace(directories=frozenset(moved), served=served)


def _confirmed(state: State, number: int, broker_id: int, broker: Broker, message: Message) -> State:
    """Stage a replica that was moved away, and add the response to the topic. The response may arrive after the broker
    got a replica again and lost that, too."""
    state = state._replace(brokers=put(state.brokers, broker_id, broker))
    topic, meant = state.store.topic, message.live
    if topic is None or topic.topic_id != message.topic_id or meant is None:
        return state
    left = frozenset(one for one in topic.departed if one[0] != broker_id or one[1] > meant.epoch)
    if left == topic.departed:
        return state
    told = topic._replace(departed=left)
    after = write(state, number, state.store._replace(topic=told))
    if after is None:
        return resigned(state, number)
    controller = after.controllers[number]
    assert controller is not None
    return after._replace(controllers=put(after.controllers, number, controller._replace(topic=told)))


def _restore(state: State, number: int, broker_id: int, broker: Broker, message: Message) -> State:
    """Move the data back without serving it, and add the response to the record."""
    found = [one for one in broker.directories if one.topic_id == message.topic_id]
    if found:
        others = broker.directories - set(found)
        broker = broker._replace(directories=others | {found[0]._replace(place=RESTORED)})
    state = state._replace(brokers=put(state.brokers, broker_id, broker))
    for record in state.store.records:
        if found and record.topic_id == message.topic_id and record.state == UNDELETING:
            told = record._replace(restored=record.restored | {broker_id})
            after = write(state, number, state.store._replace(records=state.store.records - {record} | {told}))
            if after is None:
                return resigned(state, number)
            controller = after.controllers[number]
            assert controller is not None
            known = controller._replace(records=after.store.records)
            return after._replace(controllers=put(after.controllers, number, known))
    return state


def crash(state: State, broker_id: int, broker: Broker) -> Iterator[tuple[str, State]]:
    if not state.budget.crashes:
        return
    after = state._replace(
        brokers=put(state.brokers, broker_id, broker._replace(up=False, served=0)),
        budget=state.budget._replace(crashes=state.budget.crashes - 1),
    )
    if broker_id in CONTROLLERS:
        after = resigned(after, broker_id)
    yield f"broker {broker_id} dies", after


def start(state: State, broker_id: int, broker: Broker, faults: Faults) -> Iterator[tuple[str, State]]:
    if refuses(state, broker, faults):
        return
    store = state.store
    started = broker._replace(up=True, epoch=broker.epoch + 1)
    after = state._replace(store=store, brokers=put(state.brokers, broker_id, started))
    for number, controller in enumerate(after.controllers):
        if controller is not None:
            # The sender may be a controller that was replaced and does not know it yet.
            known = controller._replace(
                alive=put(controller.alive, broker_id, started.epoch),
                queues=put(controller.queues, broker_id, ()),
            )
            after = after._replace(controllers=put(after.controllers, number, send_full(known, broker_id, seen(store))))
    yield f"broker {broker_id} starts", after


def purges(state: State, broker_id: int, broker: Broker, faults: Faults) -> Iterator[tuple[str, State]]:
    """Remove data whose deadline has passed, if the store, read after a sync, allows it."""
    for directory in sorted(broker.directories):
        if directory.place != DELAYED or refuses(state, broker, faults):
            continue
        record = next((one for one in state.store.records if one.topic_id == directory.topic_id), None)
        topic = state.store.topic
        if record is not None:
            allowed = record.state == CLOSED or (faults.purge_before_closed and record.state == DELETING)
        else:
            allowed = topic is not None and topic.topic_id == directory.topic_id and broker_id not in topic.replicas
        if not allowed and not faults.purge_without_look:
            continue
        if directory.topic_id not in state.deleted and (directory.topic_id, broker_id) not in state.left:
            raise BrokenError(f"broker {broker_id} removes {directory.topic_id}, which nobody has deleted")
        if topic is not None and topic.topic_id == directory.topic_id and broker_id in topic.replicas:
            raise BrokenError(f"broker {broker_id} removes a replica of the live topic {topic.topic_id}")
        if record is not None and record.state != CLOSED:
            raise BrokenError(f"broker {broker_id} removes {record.topic_id}, whose deletion can be taken back")
        after = state._replace(
            brokers=put(state.brokers, broker_id, broker._replace(directories=broker.directories - {directory}))
        )
        if record is not None:
            told = record._replace(holders=record.holders - {broker_id})
            records = after.store.records - {record} | {told}
            after = after._replace(store=after.store._replace(records=records))
            after = after._replace(
                controllers=tuple(
                    None
                    if one is None
                    else one._replace(records=records if one.epoch == after.store.controller_epoch else one.records)
                    for one in after.controllers
                )
            )
        yield f"broker {broker_id} removes {directory.topic_id}", after


def fetches(state: State) -> Iterator[tuple[str, State]]:
    """Let a follower that is not in sync copy its leader's records."""
    topic = state.store.topic
    if topic is None or state.brokers[topic.leader].served != topic.topic_id:
        return
    led = {one.topic_id: one.records for one in state.brokers[topic.leader].directories}
    for broker_id in sorted(topic.replicas - {topic.leader}):
        broker = state.brokers[broker_id]
        mine = next((one for one in broker.directories if one.topic_id == topic.topic_id), None)
        if not broker.up or broker.served != topic.topic_id or mine is None or mine.records >= led[topic.topic_id]:
            continue
        copied = broker.directories - {mine} | {mine._replace(records=led[topic.topic_id])}
        after = state._replace(brokers=put(state.brokers, broker_id, broker._replace(directories=copied)))
        yield f"{broker_id} has copied {topic.topic_id}", after


def produce(state: State) -> Iterator[tuple[str, State]]:
    """Append an acknowledged record: the leader and all in-sync replicas have it."""
    topic = state.store.topic
    if topic is None or not state.budget.produces:
        return
    having = {
        broker_id
        for broker_id in topic.isr
        if state.brokers[broker_id].up and state.brokers[broker_id].served == topic.topic_id
    }
    if having != topic.isr:
        return
    brokers = state.brokers
    for broker_id in having:
        directories = frozenset(
            one._replace(records=one.records + 1) if one.topic_id == topic.topic_id and one.place == LIVE else one
            for one in brokers[broker_id].directories
        )
        brokers = put(brokers, broker_id, brokers[broker_id]._replace(directories=directories))
    grown = topic._replace(committed=topic.committed + 1)
    controllers = tuple(
        one._replace(topic=grown) if one is not None and one.topic == topic else one for one in state.controllers
    )
    yield (
        f"a record is written to {topic.topic_id}",
        state._replace(
            store=state.store._replace(topic=grown),
            brokers=brokers,
            controllers=controllers,
            budget=state.budget._replace(produces=state.budget.produces - 1),
        ),
    )
