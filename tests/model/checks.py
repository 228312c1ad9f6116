"""Invariants: of every state, and of states at rest."""

from __future__ import annotations

from tests.model.brokers import deliveries
from tests.model.state import (
    DELETING,
    LIVE,
    UNDELETING,
    BrokenError,
    Faults,
    State,
    refuses,
)


def check(state: State) -> None:
    """Check the invariants of every state. Raises BrokenError."""
    topic = state.store.topic
    known = {record.topic_id for record in state.store.records}
    for broker_id, broker in enumerate(state.brokers):
        live = [one for one in broker.directories if one.place == LIVE]
        if broker.served and not any(one.topic_id == broker.served for one in live):
            raise BrokenError(f"broker {broker_id} serves {broker.served}, of which it has no directory")
        if len({one.topic_id for one in broker.directories}) != len(broker.directories):
            raise BrokenError(f"broker {broker_id} has two directories of one id")
        if topic is not None and broker_id in topic.isr and not state.set_back:
            mine = next((one for one in broker.directories if one.topic_id == topic.topic_id), None)
            if mine is None and topic.committed:
                raise BrokenError(f"broker {broker_id} is in sync for {topic.topic_id} and has no data of it")
            if mine is not None and mine.records < topic.committed:
                raise BrokenError(f"broker {broker_id} is in sync for {topic.topic_id} and lacks records")
    for record in state.store.records:
        if record.state in (DELETING, UNDELETING) and record.committed and not state.set_back:
            for broker_id in record.isr & record.holders:
                if not any(one.topic_id == record.topic_id for one in state.brokers[broker_id].directories):
                    raise BrokenError(f"{record.topic_id} can be undeleted, and broker {broker_id} has lost it")
    assert topic is None or topic.topic_id not in known
    _check_that_holders_are_known(state)


def _check_that_holders_are_known(state: State) -> None:
    """A record may be removed only when none of its holders has data left. No other broker may then have data
    either."""
    if state.set_back:
        return
    for record in state.store.records:
        for broker_id, broker in enumerate(state.brokers):
            if broker_id not in record.holders and any(
                one.topic_id == record.topic_id and one.place == LIVE for one in broker.directories
            ):
                raise BrokenError(f"broker {broker_id} has data of {record.topic_id}, and its deletion does not say so")


def settled(state: State, faults: Faults) -> State | None:
    """Return the state in which all brokers run, the last controller's messages have arrived and no step is pending.
    Return None if that is impossible, because there is no controller."""
    current = [
        number
        for number, controller in enumerate(state.controllers)
        if controller is not None and controller.epoch == state.store.controller_epoch
    ]
    if not current or not all(broker.up and not refuses(state, broker, faults) for broker in state.brokers):
        return None
    (number,) = current
    while True:
        controller = state.controllers[number]
        if controller is None:
            return None
        if not any(controller.queues):
            return state
        _, state = next(deliveries(state, number, controller, faults))


def check_settled(state: State) -> None:
    """Check the invariants of a state at rest. Raises BrokenError."""
    topic = state.store.topic
    for broker_id, broker in enumerate(state.brokers):
        hosts = topic is not None and broker_id in topic.replicas
        if hosts and topic is not None and broker.served != topic.topic_id and not state.set_back:
            # (In a store that was set back, nothing may prove which of two incarnations is later.)
            raise BrokenError(f"broker {broker_id} does not serve {topic.topic_id}")
        if not hosts and broker.served:
            raise BrokenError(f"broker {broker_id} serves {broker.served}, which it does not host")
        for directory in broker.directories:
            dead = topic is None or directory.topic_id != topic.topic_id or broker_id not in topic.replicas
            returning = any(
                record.topic_id == directory.topic_id and record.state == UNDELETING for record in state.store.records
            )
            if dead and not returning and directory.place == LIVE and not state.set_back:
                raise BrokenError(f"broker {broker_id} still has {directory.topic_id} in place")
