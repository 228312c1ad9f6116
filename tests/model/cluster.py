"""A small cluster as a value: the life of one topic name with brokers, controllers and a store, in steps that can
happen in any order. The product itself decides what a broker does with a directory (`replicas.stray_reconciliation`);
the model implements the rest of the protocol in its shortest form.

There are one partition and three brokers, two of which may be controller. A state is immutable; `steps` yields every
state that can follow. Messages from a controller to a broker keep their order. A crash loses the messages of the
crashed process. A replaced controller continues until a write or a response shows that it was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.brokers import crash, deliveries, fetches, produce, purges, start
from tests.model.controllers import decisions, elections
from tests.model.state import (
    BROKERS,
    CONTROLLERS,
    NO_FAULTS,
    Faults,
    State,
    refuses,
)


def steps(state: State, faults: Faults = NO_FAULTS) -> Iterator[tuple[str, State]]:
    """Yield every possible step, with its name. Raises BrokenError."""
    yield from elections(state, faults)
    for number, controller in enumerate(state.controllers):
        if controller is not None:
            yield from decisions(state, number, controller, faults)
            yield from deliveries(state, number, controller, faults)
    for broker_id, broker in enumerate(state.brokers):
        if broker.up:
            yield from crash(state, broker_id, broker)
            yield from purges(state, broker_id, broker, faults)
        else:
            yield from start(state, broker_id, broker, faults)
    yield from fetches(state)
    yield from produce(state)
    yield from backups(state)


def backups(state: State) -> Iterator[tuple[str, State]]:
    if state.budget.restores and state.backup is None and state.store.controller_epoch:
        yield "backup", state._replace(backup=state.store)
    if state.budget.restores and state.backup is not None and state.backup != state.store:
        # All processes that were connected to the store have lost their sessions.
        yield (
            "restore the backup",
            state._replace(
                # Ids are random: no id occurs twice.
                store=state.backup._replace(next_id=state.store.next_id),
                backup=None,
                controllers=(None,) * len(CONTROLLERS),
                budget=state.budget._replace(restores=0),
                set_back=True,
            ),
        )
    if any(refuses(state, broker, NO_FAULTS) for broker in state.brokers):
        # No broker runs, and each forgets the state of the old store that it has seen.
        stopped = tuple(one._replace(up=False, served=0, seen=None, controller_epoch=0) for one in state.brokers)
        # From this step on, the store's state counts, including its deletions; the operator has a whole delay to
        # undelete topics.
        topic = state.store.topic
        left = (
            {(topic.topic_id, broker_id) for broker_id in BROKERS if broker_id not in topic.replicas} if topic else ()
        )
        yield (
            "accept the restored store",
            state._replace(
                controllers=(None,) * len(CONTROLLERS),
                brokers=stopped,
                deleted=frozenset(record.topic_id for record in state.store.records),
                left=frozenset(left),
            ),
        )
