"""Group commit of the changes of one group: changes made during a write form the next turn.

A turn changes a copy of the group, writes the records, and installs the copy when they are on disk. Changes that
arrive meanwhile share the next turn, with one write and one target. Responses therefore show only state that a
successor would read, and a hundred members that join at once cost a few writes. A failed write may still be in the
log: the next turn overwrites every record that it could have left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from pybroker.broker.coordinators.group.epoch_group import EpochGroup
from pybroker.broker.coordinators.group.group import Group, GroupRegistry
from pybroker.broker.coordinators.shards.ports import Record
from pybroker.broker.coordinators.shards.said import SaidBytes
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

Records = dict[bytes, bytes | None]
"""Key → value; None: a tombstone."""


G = TypeVar("G", bound=EpochGroup[Any, Any])

Outcome = Any
"""The result of a change; a KafkaError if the change was refused."""
Finish = Callable[[G], Outcome]
Change = Callable[[G], Callable[[G], Outcome]]
"""Changes the copy, or raises KafkaError before changing it.

The returned function is called when the target is known. It may change the copy again, and returns the result or
raises KafkaError: a later change of the same turn may have removed its member.
"""
Reply = Callable[[Outcome], None]
Write = Callable[[list[Record], Callable[[ErrorCode], None]], None]
"""Writes records of one group; calls back with NONE when they are on disk."""


class EpochKind(msgspec.Struct, Generic[G], frozen=True):
    """How to create and store groups of one kind."""

    make: type[G]
    changes: Callable[[G | None, G], Records]
    """Returns the records that turn the first state in the log (None: nothing) into the second."""
    tombstones: Callable[[G], Records]
    said: Callable[[G], dict[str, Any]]
    """Member id → what the member says of itself, an immutable value; what members share has the id ""."""


class _Turns(msgspec.Struct, Generic[G], eq=False):
    waiting: list[tuple[Change[G], Reply]] = []
    writing: list[Reply] | None = None
    """Callers that wait for the current write; None: no write is in flight."""
    doubtful: Records = {}
    """Records that failed writes may have left in the log."""
    also: Records = {}
    """Records to add to the next turn's write."""


class GroupTurns(Generic[G]):
    """The groups of one shard, as stored, and their turns."""

    def __init__(
        self,
        kind: EpochKind[G],
        registry: GroupRegistry,
        write: Write,
        *,
        assign: Callable[[G], None],
        changed: Callable[[G | None, G], None],
        replaces: Callable[[Group], None],
        moves: Callable[[str], None] = lambda _: None,
    ) -> None:
        """assign: brings the target of a copy to its epoch. changed: called after each turn with (before, after).
        replaces: called with the group that a new group of this kind replaces. moves: called with the group's id before
        the group changes."""
        self._registry = registry
        self.said = SaidBytes()
        self.kind = kind
        self._turns: dict[str, _Turns[G]] = {}
        self._write = write
        self._assign = assign
        self._changed = changed
        self._replaces = replaces
        self._moves = moves

    def get(self, group_id: str) -> G | None:
        """Return a group as stored; callers must not change it."""
        return self._registry.get_as(group_id, self.kind.make)

    def all(self) -> list[G]:
        """Return all groups as stored; callers must not change them."""
        return self._registry.all_of(self.kind.make)

    def is_quiet(self, group_id: str) -> bool:
        """Return whether no write of the group is in flight."""
        turns = self._turns.get(group_id)
        return turns is None or turns.writing is None

    def submit(self, group_id: str, change: Change[G], reply: Reply, *, also: Records | None = None) -> None:
        """Make a change in the next turn, at once if no write is in flight.

        `also`: records of another type to write with it.
        """
        self._moves(group_id)
        turns = self._turns.setdefault(group_id, _Turns[G]())
        turns.waiting.append((change, reply))
        turns.also.update(also or {})
        if self.get(group_id) is None:
            self._registry.creating[group_id] = self.kind.make.kind
        if turns.writing is None:
            self._run(group_id, turns)

    def submit_until_stored(
        self, group_id: str, change: Change[G], later: Callable[[Callable[[], None]], None]
    ) -> None:
        """Make a change of an existing group that no caller waits for.

        As long as the change cannot be stored, call `later` with a function that retries it.
        """

        def again() -> None:
            if self.get(group_id) is not None:
                self.submit(group_id, change, answered)

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KafkaError) and self.get(group_id) is not None:
                later(again)

        again()

    def _run(self, group_id: str, turns: _Turns[G]) -> None:
        before = self.get(group_id)
        after = self.kind.make(group_id) if before is None else before.fork()
        waiting, turns.waiting = turns.waiting, []
        answers: list[tuple[Reply, Any, bool]] = []
        for place, (change, reply) in enumerate(waiting):
            try:
                answers.append((reply, change(after), True))
            except KafkaError as refused:
                answers.append((reply, refused, False))
            if after.successor is not None:
                # The remaining changes belong to the group's successor.
                turns.waiting = waiting[place + 1 :]
                break
        if after.epoch > after.target_epoch and after.successor is None:
            self._assign(after)
        outcomes = [(reply, _finished(answer, after) if finishes else answer) for reply, answer, finishes in answers]
        if before is None and not after.epoch:
            # Every would-be first member was refused.
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
                # The group was given up meanwhile, and all callers were answered.
                return
            turns.writing = None
            told = outcomes
            if error is not ErrorCode.NONE:
                turns.doubtful.update(written)
                told = [(reply, KafkaError(error)) for reply, _ in outcomes]
            elif after.successor is not None:
                # Clients of the old group see its successor when they retry.
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

    def load(self, group: G) -> None:
        """Take over a group that was read from the log."""
        self._install(None, group)

    def _install(self, before: G | None, after: G) -> None:
        replaced = self._registry.put(after)
        if before is None:
            self._registry.creating.pop(after.group_id, None)
            if replaced is not None:
                after.identity = replaced.identity
                self._replaces(replaced)
        self.said.note(after.group_id, self.kind.said(after))
        self._changed(before, after)

    def _records(self, turns: _Turns[G], before: G | None, after: G) -> Records:
        kind = self.kind
        if after.successor is not None:
            buried = {} if before is None else kind.tombstones(before)
            return {**dict.fromkeys(turns.doubtful), **buried, **after.successor}
        written = {**turns.also, **kind.changes(before, after)}
        if turns.doubtful:
            return {**dict.fromkeys(turns.doubtful), **kind.changes(None, after), **written}
        return written

    def _over(self, group_id: str, turns: _Turns[G]) -> None:
        # Keep `doubtful` while the group lives. If the group was never created, a successor loads such records as a
        # group of its own and expires the members.
        if self._turns.get(group_id) is turns and (not turns.doubtful or self.get(group_id) is None):
            del self._turns[group_id]
            self._registry.creating.pop(group_id, None)

    def forget(self, group_id: str, error: ErrorCode) -> None:
        """End the group: waiting callers get `error`."""
        self._moves(group_id)
        if self.get(group_id) is not None:
            self._registry.remove(group_id)
        self._registry.creating.pop(group_id, None)
        self.said.note(group_id, {})
        turns = self._turns.pop(group_id, None)
        if turns is not None:
            replies = [*(turns.writing or ()), *(reply for _, reply in turns.waiting)]
            _answer([(reply, KafkaError(error)) for reply in replies])

    def forget_all(self, error: ErrorCode) -> None:
        """End all groups."""
        for group_id in [*(group.group_id for group in self.all()), *self._turns]:
            self.forget(group_id, error)


def _finished(finish: Finish[G], group: G) -> Outcome:
    try:
        return finish(group)
    except KafkaError as refused:
        return refused


def _answer(outcomes: list[tuple[Reply, Outcome]]) -> None:
    for reply, outcome in outcomes:
        reply(outcome)
