"""Changes of one group are made in turns: one is decided on a copy, written, and put in place when it is on disk; what
comes meanwhile forms the next turn, with one write and one target for all of it.

So what is answered is what a successor would read, and a hundred members that join at once cost a few writes. A write
that failed may lie in the log all the same: the next turn then writes whatever it could have left behind again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pybroker.broker.coordinators.shards.ports import Record
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

Records = dict[bytes, bytes | None]
"""Key → value; None buries the key."""


class Turned(Protocol):
    """A group that is changed in turns."""

    group_id: str
    epoch: int
    target_epoch: int

    @property
    def successor(self) -> Mapping[bytes, bytes | None] | None:
        """What is stored in its place when it becomes another one; None: it stays."""
        ...


G = TypeVar("G", bound=Turned)

Outcome = Any
"""What a change is answered with; a KafkaError where it was refused."""
Finish = Callable[[G], Outcome]
Change = Callable[[G], Callable[[G], Outcome]]
"""Changes the copy (or raises KafkaError before it does); what it gives is called when the target is known, may change
the copy once more, and gives the answer (or raises KafkaError: a later change of the same turn may have removed its
member)."""
Reply = Callable[[Outcome], None]
Write = Callable[[list[Record], Callable[[ErrorCode], None]], None]
"""Writes records of one group; called back with NONE when they are on disk."""

FIRST_EPOCH = 1


def start_epochs(group: Turned) -> None:
    """To be called when a member joins: a group without epochs begins with 1, as in Kafka, so that its first member
    comes in epoch 2, and one that waits for the first target is in an epoch above 0."""
    if not group.epoch:
        group.epoch = group.target_epoch = FIRST_EPOCH


class Kind(msgspec.Struct, Generic[G], frozen=True):
    """How groups of a kind are made, copied and stored."""

    make: Callable[[str], G]
    fork: Callable[[G], G]
    changes: Callable[[G | None, G], Records]
    """What has to be written for the second to be read back, if the first (None: nothing) is what lies in the log."""
    tombstones: Callable[[G], Records]


class _Turns(msgspec.Struct, Generic[G], eq=False):
    waiting: list[tuple[Change[G], Reply]] = []
    writing: list[Reply] | None = None
    """Whoever waits for the present write; None: there is none."""
    doubtful: Records = {}
    """What failed writes may have left in the log."""
    also: Records = {}
    """To be written with the next turn."""


class GroupTurns(Generic[G]):
    """The groups of one shard, as they are on disk, and their turns."""

    def __init__(
        self,
        kind: Kind[G],
        write: Write,
        assign: Callable[[G], None],
        changed: Callable[[G | None, G], None],
        moves: Callable[[str], None] = lambda _: None,
    ) -> None:
        """assign: brings the target of a copy to its epoch. changed: told after each turn (before, after). moves: told
        the group's id before anything happens to it."""
        self.groups: dict[str, G] = {}
        self._kind = kind
        self._turns: dict[str, _Turns[G]] = {}
        self._write = write
        self._assign = assign
        self._changed = changed
        self._moves = moves

    def holds(self, group_id: str) -> bool:
        """The group exists, or is being made."""
        return group_id in self.groups or group_id in self._turns

    def is_quiet(self, group_id: str) -> bool:
        """Nothing of it is being written."""
        turns = self._turns.get(group_id)
        return turns is None or turns.writing is None

    def submit(self, group_id: str, change: Change[G], reply: Reply, *, also: Records | None = None) -> None:
        """Makes a change with the next turn, at once if none is being written. `also`: records of another kind that go
        with it."""
        self._moves(group_id)
        turns = self._turns.setdefault(group_id, _Turns[G]())
        turns.waiting.append((change, reply))
        turns.also.update(also or {})
        if turns.writing is None:
            self._run(group_id, turns)

    def submit_until_stored(
        self, group_id: str, change: Change[G], later: Callable[[Callable[[], None]], None]
    ) -> None:
        """Makes a change of a group that exists, which nobody waits for: as long as it cannot be stored, `later` is
        given what tries it again."""

        def again() -> None:
            if group_id in self.groups:
                self.submit(group_id, change, answered)

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KafkaError) and group_id in self.groups:
                later(again)

        again()

    def _run(self, group_id: str, turns: _Turns[G]) -> None:
        before = self.groups.get(group_id)
        after = self._kind.make(group_id) if before is None else self._kind.fork(before)
        waiting, turns.waiting = turns.waiting, []
        answers: list[tuple[Reply, Any, bool]] = []
        for place, (change, reply) in enumerate(waiting):
            try:
                answers.append((reply, change(after), True))
            except KafkaError as refused:
                answers.append((reply, refused, False))
            if after.successor is not None:
                # What comes behind is for the group that it becomes.
                turns.waiting = waiting[place + 1 :]
                break
        if after.epoch > after.target_epoch and after.successor is None:
            self._assign(after)
        outcomes = [(reply, _finished(answer, after) if finishes else answer) for reply, answer, finishes in answers]
        if before is None and not after.epoch:
            # Whoever wanted to be its first member was refused.
            self._over(group_id, turns)
            _answer(outcomes)
            return
        written = self._records(turns, before, after)
        if not written:
            self._install(before, after)
            self._over(group_id, turns)
            _answer(outcomes)
            return
        turns.writing = [reply for reply, _ in outcomes]

        def done(error: ErrorCode) -> None:
            if self._turns.get(group_id) is not turns:
                # The group was given up meanwhile, and everybody was answered.
                return
            turns.writing = None
            told = outcomes
            if error is not ErrorCode.NONE:
                turns.doubtful.update(written)
                told = [(reply, KafkaError(error)) for reply, _ in outcomes]
            elif after.successor is not None:
                # Who comes for the group that it was finds out when it asks again.
                self.forget(group_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                turns.doubtful, turns.also = {}, {}
                self._install(before, after)
            if not turns.waiting:
                self._over(group_id, turns)
            _answer(told)
            if turns.waiting and turns.writing is None and self._turns.get(group_id) is turns:
                self._run(group_id, turns)

        self._write(list(written.items()), done)

    def _install(self, before: G | None, after: G) -> None:
        self.groups[after.group_id] = after
        self._changed(before, after)

    def _records(self, turns: _Turns[G], before: G | None, after: G) -> Records:
        kind = self._kind
        if after.successor is not None:
            buried = {} if before is None else kind.tombstones(before)
            return {**dict.fromkeys(turns.doubtful), **buried, **after.successor}
        written = {**turns.also, **kind.changes(before, after)}
        if turns.doubtful:
            return {**dict.fromkeys(turns.doubtful), **kind.changes(None, after), **written}
        return written

    def _over(self, group_id: str, turns: _Turns[G]) -> None:
        # What a failed write may have left in the log has to be remembered while the group lives; of a group that was
        # never made it is a group of its own, whose members a successor waits for in vain.
        if self._turns.get(group_id) is turns and (not turns.doubtful or group_id not in self.groups):
            del self._turns[group_id]

    def forget(self, group_id: str, error: ErrorCode) -> None:
        """The group ends here: whoever waits gets `error`."""
        self._moves(group_id)
        self.groups.pop(group_id, None)
        turns = self._turns.pop(group_id, None)
        if turns is not None:
            replies = [*(turns.writing or ()), *(reply for _, reply in turns.waiting)]
            _answer([(reply, KafkaError(error)) for reply in replies])

    def forget_all(self, error: ErrorCode) -> None:
        """All groups end here."""
        for group_id in [*self.groups, *self._turns]:
            self.forget(group_id, error)


def _finished(finish: Finish[G], group: G) -> Outcome:
    try:
        return finish(group)
    except KafkaError as refused:
        return refused


def _answer(outcomes: list[tuple[Reply, Outcome]]) -> None:
    for reply, outcome in outcomes:
        reply(outcome)
