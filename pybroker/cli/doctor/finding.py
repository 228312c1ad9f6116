"""What one look came to."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple


class State(StrEnum):
    """How it is."""

    OK = "ok"
    WARN = "warn"
    """Works, and will hurt some day."""
    BAD = "bad"
    """Data or service is at risk, or a start would fail."""


class Finding(NamedTuple):
    """what: the subject, the same word for every state of it. says: one line. advice: what to do about it."""

    what: str
    state: State
    says: str
    advice: str | None = None
    topics: tuple[str, ...] = ()
    """Which ones, if it is about topics."""

    def about(self, where: str) -> Finding:
        """The same, of one place among several."""
        return self._replace(says=f"{where}: {self.says}")

    def document(self) -> dict[str, Any]:
        """As `--json` writes it."""
        about = {"topics": list(self.topics)} if self.topics else {}
        return {"what": self.what, "state": self.state.value, "says": self.says, "advice": self.advice, **about}


def ok(what: str, says: str) -> Finding:
    """Nothing to do."""
    return Finding(what, State.OK, says)


def warn(what: str, says: str, advice: str, topics: Iterable[str] = ()) -> Finding:
    """Works, and will hurt some day."""
    return Finding(what, State.WARN, says, advice, tuple(topics))


def bad(what: str, says: str, advice: str, topics: Iterable[str] = ()) -> Finding:
    """Data or service is at risk."""
    return Finding(what, State.BAD, says, advice, tuple(topics))


def worst(findings: Iterable[Finding]) -> State:
    """Of all; OK if there are none."""
    states = {each.state for each in findings}
    return next((state for state in (State.BAD, State.WARN) if state in states), State.OK)
