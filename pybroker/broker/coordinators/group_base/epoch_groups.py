"""The consumer, share and streams groups of one shard: heartbeats, target assignments, sessions and timeouts.

The `membership` module of each kind decides changes, by pure functions on copies of a group. `change_batches` makes the
changes durable. All functions are synchronous, on the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group_base.assignment_interval import AssignmentInterval
from pybroker.broker.coordinators.group_base.change_batches import AnyGroup, ChangeBatches, Write
from pybroker.broker.coordinators.group_base.epoch_group import GOES_AWAY, JOINS, EpochMember
from pybroker.broker.coordinators.group_base.epoch_kind import (
    EpochHeartbeat,
    EpochKind,
    Finish,
    Outcome,
    Records,
    Reply,
)
from pybroker.broker.coordinators.group_base.group_registry import Group, GroupKind, GroupRegistry
from pybroker.broker.coordinators.group_base.metadata_size import SHARED, metadata_size
from pybroker.broker.coordinators.group_base.topics_hash import TopicView
from pybroker.broker.coordinators.shards.cached_responses import CachedResponses
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""Milliseconds before a change is tried again whose write has failed."""


class EpochGroups(ChangeBatches):
    """The consumer, share and streams groups of one shard."""

    def __init__(
        self,
        kinds: Sequence[EpochKind[Any, Any, Any]],
        registry: GroupRegistry,
        write: Write,
        replaces: Callable[[Group], None],
        *,
        clock: Clock,
        timers: TimerWheel,
        view: TopicView,
    ) -> None:
        """replaces: called with the classic group that a new group has replaced."""
        super().__init__(kinds, registry, write, replaces)
        self._timers = timers
        self._view = view
        self._cached_responses: dict[str, CachedResponses] = {}
        self.interval = AssignmentInterval(clock, timers, self._assignment_interval_ms, self.assign)
        for kind in kinds:
            kind.bind(self)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self, of: GroupKind, group_id: str, beat: EpochHeartbeat, reply: Reply, *, also: Records | None = None
    ) -> None:
        """Handle a valid heartbeat; `reply` gets the result once its changes are durable.

        also: records to write together with the first member of a group.
        """
        kind, group = self._kinds[of], self.get(group_id)
        leaves = beat.epoch < JOINS
        member = None if group is None else group.members.get(beat.member_id)
        if group is not None and member is not None and not leaves:
            # Extend the session now, so that it does not expire during a slow write.
            self.keep_alive(group, member)
            answer = kind.answer(group, beat) if self._is_up_to_date(group, member, beat) else None
            if answer is not None:
                reply(answer)
                return

        def change(draft: AnyGroup) -> Finish:
            if leaves:
                result = kind.leave(draft, beat)
                how = "goes away" if beat.epoch == GOES_AWAY else "leaves"
                log.info("%s group %s: member %s %s", of, group_id, beat.member_id, how)
                return lambda _: result
            is_new = beat.member_id not in draft.members
            finish = kind.join(draft, beat)
            if is_new:
                log.info("%s group %s: member %s joins at epoch %d", of, group_id, beat.member_id, draft.epoch)
            return finish

        def answered(outcome: Outcome) -> None:
            refused = isinstance(outcome, KafkaError)
            reply(kind.result_type(ErrorCode(outcome.code), outcome.message) if refused else outcome)

        self.submit(group_id, change, answered, of=of, also=also)

    def may_replace(self, of: GroupKind, classic: Group) -> bool:
        """Return whether the first member of this kind turns the classic group into a group of its kind."""
        return self._kinds[of].may_replace(classic)

    def _is_up_to_date(self, group: AnyGroup, member: EpochMember, beat: EpochHeartbeat) -> bool:
        """Return whether a heartbeat changes nothing, because the member has already reached its target assignment."""
        return (
            0 < beat.epoch == member.epoch == group.target_epoch == group.epoch
            and group.looked_at == self._view.version
            and self.is_quiet(group.group_id)
        )

    def metadata_bytes(self, of: GroupKind, group_id: str, beat: EpochHeartbeat) -> tuple[int, int, int]:
        """Return three sizes: the metadata in a heartbeat, the metadata that it replaces, and the other memory of a new
        member."""
        sizes = self.metadata_sizes
        # All members share this metadata, so only its growth counts for this member.
        shared = max(0, metadata_size(self._kinds[of].shared(beat)) - sizes.of(group_id, SHARED))
        beside = sizes.beside_of(group_id, beat.member_id) if beat.epoch >= JOINS else 0
        return metadata_size(beat.metadata) + shared, sizes.of(group_id, beat.member_id), beside

    def cached_responses(self, group_id: str) -> CachedResponses:
        """Return the group's cache of responses."""
        return self._cached_responses.setdefault(group_id, CachedResponses())

    def _before_change(self, group_id: str) -> None:
        answers = self._cached_responses.get(group_id)
        if answers is not None:
            answers.invalidate()

    # --- targets ------------------------------------------------------------------------------------------------------

    def _assignment_interval_ms(self, group: AnyGroup) -> int:
        return self._kinds[group.kind].assignment_interval_ms(group.group_id)

    def _assign(self, draft: AnyGroup) -> None:
        kind = self._kinds[draft.kind]
        if not kind.delays_target(draft) and self.interval.is_over(draft):
            kind.assign(draft)

    def assign(self, group_id: str) -> None:
        """Compute a target assignment after its delay, which the assignment interval or the group's kind had caused."""

        def change(draft: AnyGroup) -> Finish:
            self._kinds[draft.kind].before_target(draft)
            return lambda _: None

        self.submit_until_stored(group_id, change, partial(self.interval.again, group_id))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _changed(self, before: AnyGroup | None, after: AnyGroup) -> None:
        group_id, kind = after.group_id, self._kinds[after.kind]
        known = {} if before is None else before.members
        for member_id in known.keys() - after.members.keys():
            self._forget_member(group_id, member_id)
        for member_id, member in after.members.items():
            was = known.get(member_id)
            if was is member:
                continue
            # While the removal of an expired member was being written, the member may have rejoined. It then needs a
            # new session timer.
            if was is None or _session(group_id, member_id) not in self._timers:
                self._watch_session(group_id, member_id, kind.session_timeout_ms(group_id, member))
            revocation = kind.revocation(member)
            if revocation is None:
                self._timers.cancel(_revocation(group_id, member_id))
            elif was is None or not _is_same(kind.revocation(was), revocation):
                self._watch_revocation(kind, group_id, member_id, revocation)
        kind.changed(after)

    def keep_alive(self, group: AnyGroup, member: EpochMember) -> None:
        """Extend the member's session."""
        timeout_ms = self._kinds[group.kind].session_timeout_ms(group.group_id, member)
        self._timers.touch(_session(group.group_id, member.member_id), timeout_ms)

    def _watch_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        session_ended = partial(self._end_session, group_id, member_id)
        self._timers.schedule(_session(group_id, member_id), timeout_ms, session_ended)

    def _end_session(self, group_id: str, member_id: str) -> None:
        group, answers = self.get(group_id), self._cached_responses.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if answers is not None and group is not None and member is not None:
            timeout_ms = self._kinds[group.kind].session_timeout_ms(group_id, member)
            left_ms = answers.session_left_ms(member_id, timeout_ms)
            if left_ms:
                self._watch_session(group_id, member_id, left_ms)
                return
        self.expire(group_id, member_id, "its session is over", lambda _: True)

    def _watch_revocation(
        self, kind: EpochKind[Any, Any, Any], group_id: str, member_id: str, revocation: tuple[int, object]
    ) -> None:
        def is_due(member: EpochMember) -> bool:
            return _is_same(kind.revocation(member), revocation)

        self._timers.schedule(
            _revocation(group_id, member_id),
            revocation[0],
            partial(self.expire, group_id, member_id, "it did not give up what it had to revoke in time", is_due),
        )

    def expire(self, group_id: str, member_id: str, reason: str, is_due: Callable[[Any], bool]) -> None:
        """Remove a member, if the group still has the member and `is_due(member)` is true."""

        def change(draft: AnyGroup) -> Finish:
            member = draft.members.get(member_id)
            if member is not None and is_due(member):
                log.info("%s group %s: member %s is removed: %s", draft.kind, group_id, member_id, reason)
                self._kinds[draft.kind].remove(draft, member_id)
            return lambda _: None

        later = partial(self._timers.schedule, _session(group_id, member_id), RETRY_MS)
        self.submit_until_stored(group_id, change, later)

    # --- loading and ending groups ------------------------------------------------------------------------------------

    def drop(self, group: AnyGroup) -> Records:
        """End a group before its deletion; return its tombstones."""
        self.forget(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        return self._kinds[group.kind].tombstones(group)

    def _ended(self, group_id: str, of: GroupKind, group: AnyGroup | None) -> None:
        self._cached_responses.pop(group_id, None)
        self.interval.forget(group_id)
        for member_id in () if group is None else group.members:
            self._forget_member(group_id, member_id)
        self._kinds[of].ended(group_id)

    def _forget_member(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_session(group_id, member_id))
        self._timers.cancel(_revocation(group_id, member_id))
        if group_id in self._cached_responses:
            self._cached_responses[group_id].forget(member_id)


def _is_same(revocation: tuple[int, object] | None, other: tuple[int, object]) -> bool:
    return revocation is not None and revocation[1] == other[1]


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "member session", group_id, member_id


def _revocation(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "member revocation", group_id, member_id
