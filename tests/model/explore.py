"""Breadth-first search through every history of the small cluster."""

from __future__ import annotations

import random
from collections import deque
from typing import NamedTuple

from tests.model.checks import check, check_settled, settled
from tests.model.cluster import steps
from tests.model.state import NO_FAULTS, BrokenError, Budget, Faults, State, initial


class Explored(NamedTuple):
    states: int
    complete: bool
    """Whether every history within the budget was explored."""
    broken: str
    """The shortest history that breaks an invariant, one step per line; "" if there is none."""


def explore(budget: Budget, faults: Faults = NO_FAULTS, states_max: int = 1_000_000) -> Explored:
    """Search until an invariant is broken, or until `states_max` states were visited."""
    first = initial(budget)
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    todo = deque([first])
    while todo:
        state = todo.popleft()
        try:
            for name, after in steps(state, faults):
                if after in came_from:
                    continue
                came_from[after] = (state, name)
                try:
                    check(after)
                    rest = settled(after, faults)
                    if rest is not None:
                        check_settled(rest)
                except BrokenError as problem:
                    return Explored(len(came_from), False, _history(came_from, after) + f"\n=> {problem}")
                todo.append(after)
        except BrokenError as problem:
            return Explored(len(came_from), False, _history(came_from, state) + f"\n=> {problem}")
        if len(came_from) >= states_max:
            return Explored(len(came_from), False, "")
    return Explored(len(came_from), True, "")


def walk(budget: Budget, seed: int, faults: Faults = NO_FAULTS, walks: int = 1_000, length: int = 80) -> Explored:
    """Follow random histories: they are long, while `explore` visits all short ones."""
    rng = random.Random(seed)
    taken = 0
    for _ in range(walks):
        state, names = initial(budget), list[str]()
        try:
            for _ in range(length):
                possible = list(steps(state, faults))
                if not possible:
                    break
                name, state = rng.choice(possible)
                names.append(name)
                taken += 1
                check(state)
                rest = settled(state, faults)
                if rest is not None:
                    check_settled(rest)
        except BrokenError as problem:
            return Explored(taken, False, "\n".join(names) + f"\n=> {problem}")
    return Explored(taken, False, "")


def _history(came_from: dict[State, tuple[State, str] | None], state: State) -> str:
    names: list[str] = []
    while (before := came_from[state]) is not None:
        state, name = before
        names.append(name)
    return "\n".join(reversed(names))
