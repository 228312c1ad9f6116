"""Answers to heartbeats that data threads repeat, of the members of one group.

Most heartbeats tell nothing and are told nothing. The coordinator answers such a one itself, once, and lets the data
threads answer the same bytes from then on (`native/server/src/standing.rs`). No member is answered so what the
coordinator would not answer by then:

* The answer hangs on the group, on the topics and their leaders, on settings and on features. Whatever changes the
  group takes all of its answers back first, in the same step of the loop, before anybody can be told of the change;
  what changes the rest takes back all answers of the broker, natively, where data threads are told of it, and when the
  cluster's image is replaced. A heartbeat that is answered at that moment came before the change.
* It hangs on time only in that a silent member is removed. The data threads note when they have heard it: a session
  that seems to be over is measured from there, and no answer stands any more before the member is removed.
* Whether the member may still read for the group is asked for each heartbeat.
"""

from __future__ import annotations

from typing import Protocol


class Answer(Protocol):
    """One that stands (`native.StandingAnswer`)."""

    def take_back(self) -> None:
        """It is not given any more when this returns."""
        ...

    def silent_ms(self) -> int:
        """For how long it has not been asked for, taken back or not."""
        ...


class StandingAnswers:
    """See the module. By member id."""

    __slots__ = ("_last", "_standing")

    def __init__(self) -> None:
        self._standing: dict[str, Answer] = {}
        self._last: dict[str, Answer] = {}
        """They tell when a member was heard, also when they are taken back."""

    def keep(self, member_id: str, answer: Answer) -> None:
        """An answer stands from now on, in place of what the member had over another connection."""
        before = self._standing.get(member_id)
        if before is not None:
            before.take_back()
        self._standing[member_id] = self._last[member_id] = answer

    def take_back(self) -> None:
        """Something is about to happen to the group."""
        if self._standing:
            for answer in self._standing.values():
                answer.take_back()
            self._standing.clear()

    def forget(self, member_id: str) -> None:
        """The member goes."""
        answer = self._last.pop(member_id, None)
        if answer is not None:
            answer.take_back()
            self._standing.pop(member_id, None)

    def session_left_ms(self, member_id: str, timeout_ms: int) -> int:
        """How long the session of a member still goes on, of which nothing came here for so long as it lasts; 0: it is
        over, and no answer stands."""
        answer = self._last.get(member_id)
        if answer is None:
            return 0
        if answer.silent_ms() >= timeout_ms:
            answer.take_back()
            self._standing.pop(member_id, None)
        # It may have come between the two.
        return max(timeout_ms - answer.silent_ms(), 0)
