"""Group commit of changes to one group: changes that arrive during a write form the next batch.

A batch changes a copy of the group, writes the records, and installs the copy when they are on disk. All changes of a
batch share one write and one target assignment. Therefore responses contain only state that is in the log, where the
next coordinator finds it, and a hundred members that join together need only a few writes. A write that failed may
still be in the log. For this reason the next batch overwrites all records of the failed write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pybroker.broker.coordinators.group_base.epoch_group import EpochGroup
from pybroker.broker.coordinators.group_base.epoch_kind import Change, EpochKind, Finish, Outcome, Records, Reply
from pybroker.broker.coordinators.group_base.group_registry import Group, GroupKind, GroupRegistry
from pybroker.broker.coordinators.group_base.metadata_size import MetadataSizes
from pybroker.broker.coordinators.shards.interfaces import Record
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

AnyGroup = EpochGroup[Any, Any]
Write = Callable[[list[Record], Callable[[ErrorCode], None]], None]
"""Writes records of one group; calls back with NONE when they are on disk."""


class _Pending(msgspec.Struct, eq=False):
    kind: EpochKind[Any, Any, Any]
    waiting: list[tuple[Change, Reply]] = []
    writing: list[Reply] | None = None
    """Callers that wait for the current write; None: no write is in flight."""
    doubtful: Records = {}
    """Records that failed writes may have left in the log."""
    also: Records = {}
    """Records to add to the next batch."""


class ChangeBatches(ABC):
    """The changes of one shard's consumer, share and streams groups, in batches."""

    def __init__(
        self,
        kinds: Iterable[EpochKind[Any, Any, Any]],
        registry: GroupRegistry,
        write: Write,
        replaces: Callable[[Group], None],
    ) -> None:
        """replaces: called with the classic group that a new group has replaced."""
        self.metadata_sizes = MetadataSizes()
        self._kinds: dict[GroupKind, EpochKind[Any, Any, Any]] = {kind.group_type.kind: kind for kind in kinds}
        self.registry = registry
        self._pending: dict[str, _Pending] = {}
        self._write = write
        self._replaces = replaces

    @abstractmethod
    def _before_change(self, group_id: str) -> None:
        """Called before a batch changes the group."""

    @abstractmethod
    def _assign(self, draft: AnyGroup) -> None:
        """Compute the target assignment of a changed copy, if its epoch requires a new one."""

    @abstractmethod
    def _changed(self, before: AnyGroup | None, after: AnyGroup) -> None:
        """Called when the records of a batch are on disk, and when a group has been loaded from the log."""

    @abstractmethod
    def _ended(self, group_id: str, of: GroupKind, group: AnyGroup | None) -> None:
        """Called when a group ends. `group` is None if the creation of the group had not been written yet."""

    def get(self, group_id: str) -> AnyGroup | None:
        """Return a group as it is in the log; callers must not change it."""
        return self.registry.get_as(group_id, EpochGroup)

    def is_quiet(self, group_id: str) -> bool:
        """Return whether no write of the group is in flight."""
        pending = self._pending.get(group_id)
        return pending is None or pending.writing is None

    def submit(
        self, group_id: str, change: Change, reply: Reply, *, of: GroupKind, also: Records | None = None
    ) -> None:
        """Make a change in the next batch, immediately if no write is in flight.

        of: the kind of the group; the group is created if it does not exist. also: records of another type to write
        together with the change.
        """
        self._before_change(group_id)
        pending = self._pending.setdefault(group_id, _Pending(self._kinds[of]))
        pending.waiting.append((change, reply))
        pending.also.update(also or {})
        if self.get(group_id) is None:
            self.registry.creating[group_id] = of
        if pending.writing is None:
            self._run(group_id, pending)

    def submit_until_stored(self, group_id: str, change: Change, later: Callable[[Callable[[], None]], None]) -> None:
        """Change an existing group when no request waits for the result.

        If the change cannot be written, call `later` with a function that retries the change.
        """

        def again() -> None:
            group = self.get(group_id)
            if group is not None:
                self.submit(group_id, change, answered, of=group.kind)

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KafkaError) and self.get(group_id) is not None:
                later(again)

        again()

    def _run(self, group_id: str, pending: _Pending) -> None:
        before = self.get(group_id)
        after: AnyGroup = pending.kind.group_type(group_id) if before is None else before.fork()
        waiting, pending.waiting = pending.waiting, []
        answers: list[tuple[Reply, Any, bool]] = []
        for place, (change, reply) in enumerate(waiting):
            try:
                answers.append((reply, change(after), True))
            except KafkaError as refused:
                answers.append((reply, refused, False))
            if after.successor is not None:
                # A change has ended this group. Apply the remaining changes to the group that replaces it.
                pending.waiting = waiting[place + 1 :]
                break
        if after.epoch > after.target_epoch and after.successor is None:
            self._assign(after)
        outcomes = [(reply, _finished(answer, after) if finishes else answer) for reply, answer, finishes in answers]
        if before is None and not after.epoch:
            # All first members of the group were refused, so the group is not created.
            self._over(group_id, pending)
            _answer(outcomes)
            return
        written = self._records(pending, before, after)
        if not written:
            self._install(before, after)
            self._over(group_id, pending)
            _answer(outcomes)
            return
        pending.writing = [reply for reply, _ in outcomes]

        def done(error: ErrorCode) -> None:
            if self._pending.get(group_id) is not pending:
                # The group was forgotten during the write; all its callers already have an answer.
                return
            pending.writing = None
            answered = outcomes
            if error is not ErrorCode.NONE:
                pending.doubtful.update(written)
                answered = [(reply, KafkaError(error)) for reply, _ in outcomes]
            elif after.successor is not None:
                # Clients of the replaced group retry, and then find the new group.
                self.forget(group_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                pending.doubtful, pending.also = {}, {}
                self._install(before, after)
            if not pending.waiting:
                self._over(group_id, pending)
            _answer(answered)
            if pending.waiting and pending.writing is None and self._pending.get(group_id) is pending:
                self._run(group_id, pending)

        self._write(list(written.items()), done)

    def load(self, group: AnyGroup) -> None:
        """Add a group that was read from the log."""
        self._install(None, group)

    def _install(self, before: AnyGroup | None, after: AnyGroup) -> None:
        replaced = self.registry.put(after)
        if before is None:
            self.registry.creating.pop(after.group_id, None)
            if replaced is not None:
                after.identity = replaced.identity
                self._replaces(replaced)
        self.metadata_sizes.note(after.group_id, self._kinds[after.kind].member_metadata(after))
        self._changed(before, after)

    def _records(self, pending: _Pending, before: AnyGroup | None, after: AnyGroup) -> Records:
        kind = pending.kind
        if after.successor is not None:
            gone = {} if before is None else kind.tombstones(before)
            return {**dict.fromkeys(pending.doubtful), **gone, **after.successor}
        written = {**pending.also, **kind.changes(before, after)}
        if pending.doubtful:
            return {**dict.fromkeys(pending.doubtful), **kind.changes(None, after), **written}
        return written

    def _over(self, group_id: str, pending: _Pending) -> None:
        # Keep `doubtful` until the records are overwritten. If the group is never created, the next coordinator may
        # load these records as a group; the members of that group then expire.
        if self._pending.get(group_id) is pending and (not pending.doubtful or self.get(group_id) is None):
            del self._pending[group_id]
            self.registry.creating.pop(group_id, None)

    def forget(self, group_id: str, error: ErrorCode) -> None:
        """Drop the group from memory: waiting callers get `error`."""
        self._before_change(group_id)
        group, pending = self.get(group_id), self._pending.pop(group_id, None)
        self.metadata_sizes.note(group_id, {})
        self.registry.creating.pop(group_id, None)
        if group is not None:
            self.registry.remove(group_id)
            self._ended(group_id, group.kind, group)
        elif pending is not None:
            self._ended(group_id, pending.kind.group_type.kind, None)
        if pending is not None:
            replies = [*(pending.writing or ()), *(reply for _, reply in pending.waiting)]
            _answer([(reply, KafkaError(error)) for reply in replies])

    def forget_all(self, error: ErrorCode) -> None:
        """Drop all groups from memory: waiting callers get `error`."""
        for group_id in [*(group.group_id for group in self.registry.all_of(EpochGroup)), *self._pending]:
            self.forget(group_id, error)


def _finished(finish: Finish, group: AnyGroup) -> Outcome:
    try:
        return finish(group)
    except KafkaError as refused:
        return refused


def _answer(outcomes: list[tuple[Reply, Outcome]]) -> None:
    for reply, outcome in outcomes:
        reply(outcome)
