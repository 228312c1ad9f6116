"""The small cluster as a value: brokers, controllers, a store, and messages in flight. Immutable."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from pybroker.broker.metadata.store_history import ControllerHistory, StoredTerm, set_back

_T = TypeVar("_T")

BROKERS = (0, 1, 2)
CONTROLLERS = (0, 1)

LIVE, DELAYED, ENDLESS, RESTORED = "live", "delayed", "endless", "restored"
"""State of a directory: in service; staged with a deadline; staged without one; moved back for an undelete, not served.
"""

DELETING, CLOSED, UNDELETING = "deleting", "closed", "undeleting"
"""State of a deletion record: undeletable; no longer undeletable; being undeleted."""


class Directory(NamedTuple):
    topic_id: int
    place: str
    epoch: int
    records: int


class Topic(NamedTuple):
    """The live incarnation of the name. `committed`: acknowledged records."""

    topic_id: int
    replicas: frozenset[int]
    isr: frozenset[int]
    leader: int
    epoch: int
    committed: int
    departed: frozenset[tuple[int, int]] = frozenset()
    """Broker from which the replica was moved away → leader epoch of the move, until the broker has confirmed it."""


class Record(NamedTuple):
    """A deletion. `holders`: brokers that may still have data of it."""

    topic_id: int
    state: str
    holders: frozenset[int]
    isr: frozenset[int]
    committed: int
    restored: frozenset[int]
    replicas: frozenset[int]


class Store(NamedTuple):
    topic: Topic | None
    records: frozenset[Record]
    next_id: int
    floor: int
    controller_epoch: int
    decision: int
    """Counted only if a restore may happen."""
    offices: tuple[tuple[int, StoredTerm], ...]


class Message(NamedTuple):
    kind: str
    """Type of the message: full, incremental, others (incremental, about other topics), stop, restore."""
    controller_epoch: int
    broker_epoch: int
    seen: ControllerHistory
    """The sender's position in the decisions."""
    topic: Topic | None
    """The partitions in the message: a FULL message names all that the receiver hosts."""
    live: Topic | None
    """The state that UpdateMetadata has shown before this message."""
    topic_id: int
    """Partition states of StopReplica and RestoreReplicas."""


class Controller(NamedTuple):
    epoch: int
    topic: Topic | None
    records: frozenset[Record]
    alive: tuple[int, ...]
    """Broker → broker epoch that the controller knows, else -1."""
    queues: tuple[tuple[Message, ...], ...]


class Broker(NamedTuple):
    up: bool
    epoch: int
    controller_epoch: int
    """The highest controller epoch that the broker has obeyed in this run."""
    seen: ControllerHistory | None
    """The last controller decision that the broker has stored on its disk."""
    directories: frozenset[Directory]
    served: int
    """The topic id in service; 0: none."""


class Budget(NamedTuple):
    """Limits of further events: they keep the exploration finite."""

    creates: int
    deletes: int
    undeletes: int
    reassignments: int
    crashes: int
    elections: int
    restores: int
    produces: int
    others: int = 0
    """Number of requests about other topics: INCREMENTAL ones that do not name this topic."""


class State(NamedTuple):
    store: Store
    backup: Store | None
    controllers: tuple[Controller | None, ...]
    brokers: tuple[Broker, ...]
    budget: Budget
    deleted: frozenset[int] = frozenset()
    """Topic ids that clients know as deleted and that were not undeleted since."""
    left: frozenset[tuple[int, int]] = frozenset()
    """(id, broker) of replicas that were moved away."""
    counted: bool = False
    """Whether decisions are numbered. That matters only if the store may be restored, and it costs states."""
    set_back: bool = False
    """Whether the store was ever restored."""


class BrokenError(AssertionError):
    """An invariant does not hold."""


class Faults(NamedTuple):
    """Mistakes that can be planted. For each, some history must break an invariant."""

    absence_deletes: bool = False
    """Partitions that a FULL request does not name are staged with a deadline, whatever the broker knows of them."""
    incremental_deletes: bool = False
    """Partitions that an INCREMENTAL request does not name are treated as in a FULL one."""
    purge_without_look: bool = False
    """When a deadline has passed, data is removed without reading the store again."""
    purge_before_closed: bool = False
    """Data may be removed while the deletion can still be undone."""
    stale_controller_obeyed: bool = False
    restored_store_accepted: bool = False
    full_before_loaded: bool = False
    """A new controller sends FULL messages from an image that it has not loaded."""
    stop_by_name: bool = False
    any_replica_leads_after_undelete: bool = False
    departed_forgotten: bool = False
    """A deletion record names only the replicas at the time of the deletion."""


NO_FAULTS = Faults()


def initial(budget: Budget) -> State:
    nobody = Broker(True, 1, 0, None, frozenset(), 0)
    store = Store(None, frozenset(), 1, 0, 0, 0, ())
    nobodies = (None,) * len(CONTROLLERS)
    return State(store, None, nobodies, (nobody,) * len(BROKERS), budget, counted=bool(budget.restores))


def write(state: State, number: int, store: Store) -> State | None:
    """Apply a multi of a controller; return None if it fails because another controller has taken over."""
    controller = state.controllers[number]
    assert controller is not None
    if controller.epoch != state.store.controller_epoch:
        return None
    return state._replace(store=store._replace(decision=state.store.decision + state.counted))


def resigned(state: State, number: int) -> State:
    return state._replace(controllers=put(state.controllers, number, None))


def refuses(state: State, broker: Broker, faults: Faults) -> bool:
    """Return whether the broker considers the store as set back."""
    if faults.restored_store_accepted or not state.counted:
        return False
    return set_back(broker.seen, dict(state.store.offices), state.store.decision) is not None


def put(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at + 1 :])
