"""Several clients create, delete and undelete topics of the same names at the same time. Their responses must match
those of one controller that handles one request after another."""

from __future__ import annotations

import itertools
import math
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pybroker.native import CodecError, Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.chaos.churn import ANSWER_S
from tests.chaos.linearizable import Operation, UndecidedError, unexplained
from tests.topic_ids.lives import Lives

PREFIX = "contended-"
PER_NAME = 40
"""Requests for one name; then the clients continue with the next one, so that few lost responses concern the same name.
"""
PAUSE_S = 0.3
"""Longest pause between two requests of a client."""


class Action(NamedTuple):
    """A request and its response. `code` is None if the response was lost or does not show the outcome."""

    kind: str
    topic_id: str
    """The topic id in the request. For a request by name: empty, or the id in the response; a made-up id if the
    response was lost."""
    code: int | None


class NameState(NamedTuple):
    """A name as the controller sees it: the topic that has it, the topic that is being undeleted under it, and the
    deleted topics that can be undeleted."""

    live: str | None = None
    returning: str | None = None
    deleted: frozenset[str] = frozenset()


CREATE, DELETE, DELETE_BY_NAME, UNDELETE = "create", "delete", "delete by name", "undelete"
RETURN, GIVE_UP = "return", "give up"
"""The two ways in which an undelete ends. It begins by reserving the name; then replicas move their data back."""
LOST = "lost "
"""Prefix of the made-up id of a topic whose creation had no response."""
DEFINITE: Mapping[str, frozenset[int]] = {
    CREATE: frozenset({0, ErrorCode.TOPIC_ALREADY_EXISTS}),
    DELETE: frozenset({0, ErrorCode.UNKNOWN_TOPIC_ID}),
    DELETE_BY_NAME: frozenset({0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    UNDELETE: frozenset({0, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_ID}),
}
"""Responses that show the outcome. After any other response, the request may or may not have been executed."""


def step(state: NameState, action: Action) -> NameState | None:
    """Return the state of the name after an action; None if the action cannot have had this response in this state."""
    taken = state.live is not None or state.returning is not None
    match action.kind:
        case "create":
            if action.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return state if taken else None
            return _unless_lost(state, action) if taken else state._replace(live=action.topic_id)
        case "delete" | "delete by name":
            return _after_deletion(state, action)
        case "undelete":
            if action.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                # The same holds for a topic whose undelete or deletion is in progress.
                return state
            there = action.topic_id in state.deleted
            if action.code == ErrorCode.UNKNOWN_TOPIC_ID:
                return None if there else state
            if there and not taken:
                return state._replace(returning=action.topic_id, deleted=state.deleted - {action.topic_id})
        case "return" if state.returning == action.topic_id:
            return state._replace(live=action.topic_id, returning=None)
        case "give up" if state.returning == action.topic_id:
            return state._replace(returning=None, deleted=state.deleted | {action.topic_id})
    return _unless_lost(state, action)


def _after_deletion(state: NameState, action: Action) -> NameState | None:
    live, by_name = state.live, action.kind == DELETE_BY_NAME
    if live is not None and (live == action.topic_id or (by_name and _unnamed(live, action))):
        if action.code not in (0, None):
            return None
        gone = live if action.code is None else action.topic_id
        return state._replace(live=None, deleted=state.deleted | {gone})
    if action.code == 0 or (by_name and action.code is not None and live is not None):
        return None
    return state


def _unless_lost(state: NameState, action: Action) -> NameState | None:
    return state if action.code is None else None


def requested(begun: float, ended: float, action: Action) -> Iterator[Operation[Action]]:
    """Return the operations of a request."""
    yield Operation(begun, ended, action)
    if action.kind == UNDELETE and action.code in (0, None):
        yield Operation(begun, ended, action._replace(kind=RETURN))
    if action.kind == UNDELETE and action.code is None:
        yield Operation(begun, ended, action._replace(kind=GIVE_UP))


def _unnamed(live: str, action: Action) -> bool:
    """Return whether a deletion by name may be about the current topic: its own response was lost, or the response to
    the creation."""
    return action.code is None or live.startswith(LOST)


class Contended:
    """All operations of the clients, by topic name."""

    def __init__(self) -> None:
        self.operations: dict[str, list[Operation[Action]]] = defaultdict(list)
        self._requests = itertools.count()
        self.answered = 0
        """Requests whose response shows the outcome."""
        self._ids: dict[str, list[Uuid]] = defaultdict(list)
        self._lock = threading.Lock()

    def next_name(self) -> str:
        """The name of the next request."""
        return f"{PREFIX}{next(self._requests) // PER_NAME}"

    def ids(self, name: str) -> list[Uuid]:
        """Return the topics that had this name, as far as responses show them."""
        with self._lock:
            return list(self._ids[name])

    def add(self, name: str, operations: Iterable[Operation[Action]], topic_id: Uuid | None) -> None:
        """Record a request. topic_id: the topic in the response."""
        with self._lock:
            added = list(operations)
            self.operations[name] += added
            self.answered += added[0].answered
            if topic_id is not None and topic_id not in self._ids[name]:
                self._ids[name].append(topic_id)

    def check(self) -> tuple[list[str], int]:
        """Return the responses that no order of the requests explains, and the number of names with too many lost
        responses to decide."""
        found, undecided = [], 0
        for name, operations in self.operations.items():
            try:
                left = unexplained(operations, NameState(), step)
            except UndecidedError:
                undecided += 1
                continue
            if left:
                found.append(f"no order of the requests explains the answers about {name}:{_told(operations, left)}")
        return found, undecided


def _told(operations: Iterable[Operation[Action]], left: Iterable[Operation[Action]]) -> str:
    lines = []
    for operation in sorted(operations, key=lambda operation: operation.begun):
        mark = "  <- one of these" if operation in left else ""
        kind, topic_id, code = operation.action
        lines.append(f"\n  {operation.begun:.4f} – {operation.ended:.4f} {kind} {topic_id}: {code}{mark}")
    return "".join(lines)


class Contender(threading.Thread):
    """One of the clients. It chooses a broker for each request, and sends each request once."""

    def __init__(self, number: int, ports: Mapping[int, int], contended: Contended, seed: int) -> None:
        super().__init__(daemon=True, name=f"contender-{number}")
        self._brokers = [Lives(port, ANSWER_S) for port in ports.values()]
        self._contended = contended
        self._random = random.Random(seed)
        self._number = number
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            self._request(self._contended.next_name())
            time.sleep(self._random.uniform(0, PAUSE_S))

    def _request(self, name: str) -> None:
        ids = self._contended.ids(name)
        kind = self._random.choice([CREATE, DELETE, DELETE, DELETE_BY_NAME, UNDELETE, UNDELETE] if ids else [CREATE])
        asked = self._random.choice(ids) if kind in (DELETE, UNDELETE) else None
        shown, code = asked, None
        begun = time.monotonic()
        try:
            answer = self._send(kind, name, asked)
            code = answer.error_code if answer.error_code in DEFINITE[kind] else None
            if code == 0:
                shown = answer.topic_id
        except (OSError, CodecError):
            pass
        ended = math.inf if code is None else time.monotonic()
        topic_id = shown.hex if shown is not None else f"{LOST}{self._number}/{begun:.6f}"
        self._contended.add(name, requested(begun, ended, Action(kind, topic_id, code)), shown)

    def _send(self, kind: str, name: str, topic_id: Uuid | None) -> Any:
        broker = self._random.choice(self._brokers)
        if kind == CREATE:
            return broker.try_create(name, replicas=3)
        if kind == UNDELETE and topic_id is not None:
            return broker.undelete(topic_id)
        return broker.delete(name if topic_id is None else topic_id)
