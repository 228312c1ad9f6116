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

A member's commits are left to the data threads in the same way (`native/server/src/standing_commits.rs`): they append
what the member commits for topics that it was found to commit for, while nothing happens to the group or its topics.
Such a right is kept here with the member's answers. Whoever writes what no later commit may undo, or be undone by
(tombstones, what a deletion record kept), takes all rights of the shard back before he looks at its offsets
(`Offsets`); none is given while something of that waits to be written (`ShardLog.is_still`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Answer(Protocol):
    """One that stands (`native.StandingAnswer`, `native.CommitRight`)."""

    def take_back(self) -> None:
        """It is not given any more when this returns."""
        ...

    def silent_ms(self) -> int:
        """For how long it has not been asked for, taken back or not."""
        ...


HEARTBEATS = "heartbeats"
COMMITS = "commits"
"""What answers are given to."""


class StandingAnswers:
    """See the module. By member id and by what they are given to."""

    __slots__ = ("_heard", "_standing")

    def __init__(self) -> None:
        self._standing: dict[str, dict[str, Answer]] = {}
        self._heard: dict[str, dict[str, Answer]] = {}
        """They tell when a member was heard, also when they are taken back."""

    def keep(self, member_id: str, answer: Answer, what: str = HEARTBEATS, *, heard: bool = True) -> None:
        """An answer stands from now on, in place of what the member had over another connection. `heard`: whoever asks
        for it is alive."""
        standing = self._standing.setdefault(member_id, {})
        before = standing.get(what)
        if before is not None:
            before.take_back()
        standing[what] = answer
        if heard:
            self._heard.setdefault(member_id, {})[what] = answer

    def standing(self, member_id: str, what: str) -> Any:
        """What was kept, if it was not taken back here; None: nothing."""
        return self._standing.get(member_id, {}).get(what)

    def take_back(self) -> None:
        """Something is about to happen to the group."""
        if self._standing:
            for member_id in list(self._standing):
                self._take_back_of(member_id)

    def forget(self, member_id: str) -> None:
        """The member goes."""
        self._take_back_of(member_id)
        self._heard.pop(member_id, None)

    def session_left_ms(self, member_id: str, timeout_ms: int) -> int:
        """How long the session of a member still goes on, of which nothing came here for so long as it lasts; 0: it is
        over, and no answer stands."""
        heard = self._heard.get(member_id)
        if heard is None:
            return 0
        if _silent_ms(heard) >= timeout_ms:
            self._take_back_of(member_id)
        # It may have come between the two.
        return max(timeout_ms - _silent_ms(heard), 0)

    def _take_back_of(self, member_id: str) -> None:
        for answer in self._standing.pop(member_id, {}).values():
            answer.take_back()


def _silent_ms(heard: Mapping[str, Answer]) -> int:
    return min(answer.silent_ms() for answer in heard.values())
