"""The result of one check."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple


class FindingState(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARN = "warn"
    """Works now, but will cause a problem some day."""
    BAD = "bad"
    """Data or service is at risk, or a start would fail."""


class Finding(NamedTuple):
    """`what` is the subject, with the same word in every state. `says` is one line. `advice` is the remedy."""

    what: str
    state: FindingState
    says: str
    advice: str | None = None
    topics: tuple[str, ...] = ()
    """The topics concerned, if any."""

    def about(self, where: str) -> Finding:
        """Return the finding with its place added, for checks that examine several places."""
        return self._replace(says=f"{where}: {self.says}")

    def document(self) -> dict[str, Any]:
        """Return the finding for `--json`."""
        about = {"topics": list(self.topics)} if self.topics else {}
        return {"what": self.what, "state": self.state.value, "says": self.says, "advice": self.advice, **about}


def ok(what: str, says: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(what, FindingState.OK, says)


def warn(what: str, says: str, advice: str, topics: Iterable[str] = ()) -> Finding:
    """Return a finding about something that works now, but will cause a problem some day."""
    return Finding(what, FindingState.WARN, says, advice, tuple(topics))


def bad(what: str, says: str, advice: str, topics: Iterable[str] = ()) -> Finding:
    """Return a finding that puts data or service at risk."""
    return Finding(what, FindingState.BAD, says, advice, tuple(topics))


def worst(findings: Iterable[Finding]) -> FindingState:
    """Return the worst state; OK without findings."""
    states = {each.state for each in findings}
    return next((state for state in (FindingState.BAD, FindingState.WARN) if state in states), FindingState.OK)
