"""Decides whether the responses to concurrent requests are those of one sequence of requests (linearizability).

The algorithm is that of Wing and Gong, with Lowe's memory of visited states. It searches for an order of the operations
that agrees with their times and with a model, and visits no combination of executed operations and state twice. An
operation whose response was lost may have happened at any time after it was sent, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)
A = TypeVar("A")

COMBINATIONS_MAX = 300_000
"""Limit of visited combinations of executed operations and state; beyond it, the history stays undecided."""


class Operation(NamedTuple, Generic[A]):
    """A request, with the times at which a client sent it and received the response. `ended` is infinite if the
    response was lost."""

    begun: float
    ended: float
    action: A

    @property
    def answered(self) -> bool:
        return math.isfinite(self.ended)


class UndecidedError(Exception):
    """The history has too many lost responses."""


def unexplained(
    operations: Sequence[Operation[A]], initial: S, step: Callable[[S, A], S | None]
) -> list[Operation[A]]:
    """Return nothing if an order explains all responses. Otherwise return the operations that block the search: in no
    order that explains all operations before them can one of them be next.

    `step` returns the state after an action, or None if the action cannot have had its response in that state.
    """
    ordered = sorted(operations, key=lambda operation: operation.begun)
    answered = [index for index, operation in enumerate(ordered) if operation.answered]
    lost = [index for index, operation in enumerate(ordered) if not operation.answered]
    seen: set[tuple[int, S]] = set()
    pending: list[tuple[int, S]] = [(0, initial)]
    furthest, stuck = -1, []
    while pending:
        executed, state = pending.pop()
        open_ = _open(ordered, answered, executed)
        if not open_:
            return []
        explained = sum(1 for index in answered if executed >> index & 1)
        if explained > furthest:
            furthest, stuck = explained, open_
        limit = min(ordered[index].ended for index in open_)
        maybe = [index for index in lost if not executed >> index & 1 and ordered[index].begun <= limit]
        # Answered operations are popped first: an explanation needs few of the operations whose response was lost.
        for index in maybe + open_[::-1]:
            after = step(state, ordered[index].action)
            if after is None or (after == state and not ordered[index].answered):
                continue
            combination = (executed | 1 << index, after)
            if combination not in seen:
                seen.add(combination)
                pending.append(combination)
        if len(seen) > COMBINATIONS_MAX:
            raise UndecidedError(f"{len(operations)} operations, {len(lost)} of them without an answer")
    return [ordered[index] for index in stuck]


def _open(ordered: Sequence[Operation[A]], answered: Sequence[int], executed: int) -> list[int]:
    """Return the answered operations that can be next: no other operation had ended before they began."""
    found: list[int] = []
    limit = math.inf
    for index in answered:
        if executed >> index & 1:
            continue
        if ordered[index].begun > limit:
            break
        found.append(index)
        limit = min(limit, ordered[index].ended)
    return found
