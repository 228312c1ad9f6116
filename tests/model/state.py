"""The small cluster as a value: brokers, controllers, a store, messages under way; immutable."""

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
    """The name's incarnation. `committed`: records that were acknowledged."""

    topic_id: int
    replicas: frozenset[int]
    isr: frozenset[int]
    leader: int
    epoch: int
    committed: int
    departed: frozenset[tuple[int, int]] = frozenset()
    """Brokers from which it was moved away, with the epoch of that, and that have not confirmed it."""


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
    """full, incremental, others (incremental, about other topics), stop, restore."""
    controller_epoch: int
    broker_epoch: int
    seen: ControllerHistory
    """The controller's position."""
    topic: Topic | None
    """The partitions that it names: a FULL names all that the receiver hosts."""
    live: Topic | None
    """The state that UpdateMetadata has shown before it."""
    topic_id: int
    """Partition states of StopReplica and RestoreReplicas."""


class Controller(NamedTuple):
    epoch: int
    topic: Topic | None
    records: frozenset[Record]
    alive: tuple[int, ...]
    """Broker epoch of each broker that it knows, else -1."""
    queues: tuple[tuple[Message, ...], ...]


class Broker(NamedTuple):
    up: bool
    epoch: int
    controller_epoch: int
    """The highest obeyed in this life."""
    seen: ControllerHistory | None
    """On disk."""
    directories: frozenset[Directory]
    served: int
    """The id in service, 0: none."""


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
    """Requests about other topics: INCREMENTAL, and without this one."""


class State(NamedTuple):
    store: Store
    backup: Store | None
    controllers: tuple[Controller | None, ...]
    brokers: tuple[Broker, ...]
    budget: Budget
    deleted: frozenset[int] = frozenset()
    """Topic ids that clients know as deleted and that were not undeleted since."""
    left: frozenset[tuple[int, int]] = frozenset()
    """(id, broker): replicas that were moved away."""
    counted: bool = False
    """Whether decisions are numbered: only where the store may be restored does it matter, and it costs states."""
    set_back: bool = False
    """The store was restored, some time."""


class BrokenError(AssertionError):
    """An invariant does not hold."""


class Faults(NamedTuple):
    """Mistakes that can be planted, each of which some history must show."""

    absence_deletes: bool = False
    """Partitions that a FULL request does not name are staged with a deadline, whatever the broker knows of them."""
    incremental_deletes: bool = False
    """Partitions that an INCREMENTAL request does not name are treated as in a FULL one."""
    purge_without_look: bool = False
    """A deadline that is over removes the data without asking the store again."""
    purge_before_closed: bool = False
    """Data may be removed while the deletion can still be taken back."""
    stale_controller_obeyed: bool = False
    restored_store_accepted: bool = False
    full_before_loaded: bool = False
    """A new controller sends FULL of an image that it has not loaded."""
    stop_by_name: bool = False
    any_replica_leads_after_undelete: bool = False
    departed_forgotten: bool = False
    """A deletion record names the replicas at that time only."""


NO_FAULTS = Faults()


def initial(budget: Budget) -> State:
    nobody = Broker(True, 1, 0, None, frozenset(), 0)
    store = Store(None, frozenset(), 1, 0, 0, 0, ())
    nobodies = (None,) * len(CONTROLLERS)
    return State(store, None, nobodies, (nobody,) * len(BROKERS), budget, counted=bool(budget.restores))


def write(state: State, number: int, store: Store) -> State | None:
    """A multi of a controller; None: refused, because another one has taken the office."""
    controller = state.controllers[number]
    assert controller is not None
    if controller.epoch != state.store.controller_epoch:
        return None
    return state._replace(store=store._replace(decision=state.store.decision + state.counted))


def resigned(state: State, number: int) -> State:
    return state._replace(controllers=put(state.controllers, number, None))


def refuses(state: State, broker: Broker, faults: Faults) -> bool:
    """Whether the broker takes the store for one that was set back."""
    if faults.restored_store_accepted or not state.counted:
        return False
    return set_back(broker.seen, dict(state.store.offices), state.store.decision) is not None


def put(values: tuple[_T, ...], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at + 1 :])
