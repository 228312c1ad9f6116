"""The consumer groups of one shard: heartbeats, sessions and timeouts.

Pure functions on copies make the decisions (`membership`, `assignment`, `reconciliation`); `turns` makes them
durable. Everything here is synchronous, on the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from msgspec import structs

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.consumer import assignment, membership, records
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    GOES_AWAY,
    JOINS,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    Partition,
)
from pybroker.broker.coordinators.consumer.records import StoredConsumerGroup
from pybroker.broker.coordinators.consumer.settings import ConsumerSettings
from pybroker.broker.coordinators.consumer.topics import MayRead, TopicView, resolve
from pybroker.broker.coordinators.group.group import Group, GroupRegistry
from pybroker.broker.coordinators.shards.assignment_interval import AssignmentInterval
from pybroker.broker.coordinators.shards.standing import StandingAnswers
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.shards.turns import EpochKind, GroupTurns, Outcome, Records, Write
from pybroker.broker.coordinators.shards.turns import Finish as Finishing
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

Finish = Finishing[ConsumerGroup]


def _said(group: ConsumerGroup) -> dict[str, ConsumerSubscription]:
    return {member_id: member.subscription for member_id, member in group.members.items()}


KIND = EpochKind(ConsumerGroup, records.changes, records.tombstones, _said)

BEATS_A_SECOND_MAX = 500
"""Limits one group's heartbeats during a rebalance, so that a large group does not keep the coordinator from others."""

EXPIRY_RETRY_MS = 1_000
"""Delay before retrying a member's removal that could not be written."""


class ConsumerGroups:
    """The consumer groups of one shard."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerWheel,
        view: TopicView,
        settings: ConsumerSettings,
        registry: GroupRegistry,
        write: Write,
        replaces: Callable[[Group], None],
        changed: Callable[[ConsumerGroup], None],
        assigned: Callable[[], None],
    ) -> None:
        """replaces: called with each group that a new one replaces. changed: called with each group after a change.
        assigned: called for each new target."""
        self._told = changed
        self._assigned = assigned
        self._clock = clock
        self._timers = timers
        self._view = view
        self._settings = settings
        self._answers: dict[str, StandingAnswers] = {}
        self._interval = AssignmentInterval(clock, timers, settings.assignment_interval_ms, self._assign_now)
        self.turns = GroupTurns(
            KIND, registry, write, assign=self._assign, changed=self._changed, replaces=replaces, moves=self._moves
        )
        self.get, self.all = self.turns.get, self.turns.all

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        group_id: str,
        beat: ConsumerHeartbeat,
        may_read: MayRead,
        reply: Callable[[ConsumerHeartbeatResult], None],
        *,
        also: Records | None = None,
        begin: Callable[[ConsumerGroup], None] | None = None,
    ) -> None:
        """Handle a valid ConsumerGroupHeartbeat; `reply` gets the result once the changes are durable.

        may_read: whether the member is authorized to see a topic. also, begin: for the first member of a group, the
        records to write with it, and a function that fills the group before it joins.
        """
        group = self.get(group_id)
        if beat.epoch < JOINS:
            self._leave(group_id, beat, reply)
            return
        if group is not None:
            answer = self._at_once(group, beat)
            if answer is not None:
                reply(answer)
                return
        if not beat.member_id:
            beat = structs.replace(beat, member_id=str(Uuid.random()))
        now_ms = self._clock.wall_ms()

        def change(draft: ConsumerGroup) -> Finish:
            trial = draft
            if begin is not None and not draft.epoch:
                # Fill the group only if the member is accepted.
                trial = draft.fork()
                begin(trial)
            epoch = trial.epoch
            before = membership.enter(
                trial, beat, self._settings.max_size, lambda regex: resolve(regex, self._view, may_read, now_ms)
            )
            if trial is not draft:
                draft.become(trial)
            self.look_again(draft, epoch, may_read)
            if before is None:
                log.info("group %s: member %s joins at epoch %d", group_id, beat.member_id, draft.epoch)

            def finish(draft: ConsumerGroup) -> Outcome:
                moved = self.progress(draft, beat.member_id, beat.owned)
                told = beat.is_full or before is None or moved.assigned.keys() != before.assigned.keys()
                return self._result(draft, moved, told=told)

            return finish

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KafkaError):
                reply(refused(outcome))
                return
            reply(outcome)

        # The session must not depend on how long a write takes.
        member = None if group is None else group.members.get(beat.member_id)
        if member is not None:
            self.keep_alive(group_id, member)
        self.turns.submit(group_id, change, answered, also=also)

    def _at_once(self, group: ConsumerGroup, beat: ConsumerHeartbeat) -> ConsumerHeartbeatResult | None:
        """Return the result for a heartbeat that changes nothing, as nearly all do; None for others."""
        member = group.members.get(beat.member_id)
        if (
            member is None
            or not beat.is_plain
            or member.is_classic
            or beat.epoch != member.epoch
            or beat.instance_id not in (None, member.instance_id)
            or not member.is_settled(group.target_epoch)
            or group.epoch != group.target_epoch
            or group.looked_at != self._view.version
            or self._regexes_are_old(group, self._clock.wall_ms())
            or not self.turns.is_quiet(group.group_id)
        ):
            return None
        self.keep_alive(group.group_id, member)
        return structs.replace(self._result(group, member, told=False), stands=self._rests(group))

    def _rests(self, group: ConsumerGroup) -> bool:
        """Return whether time alone does not change the response: no regular expression to refresh, no interval that
        ends."""
        age_ms = self._clock.wall_ms() - group.target_timestamp_ms
        return not group.regexes and age_ms >= self._settings.heartbeat_interval_ms(group.group_id)

    def answers(self, group_id: str) -> StandingAnswers:
        """Return the group's cache of heartbeat responses."""
        return self._answers.setdefault(group_id, StandingAnswers())

    def _moves(self, group_id: str) -> None:
        answers = self._answers.get(group_id)
        if answers is not None:
            answers.take_back()

    def _result(self, group: ConsumerGroup, member: ConsumerMember, *, told: bool) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=self._interval_ms(group, member),
            assigned=frozenset(member.assigned) if told else None,
        )

    def _interval_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        """Return the member's heartbeat interval, which is shorter during a rebalance.

        Members wait for partitions that others release, and learn of both only through heartbeats.
        """
        usual = self._settings.heartbeat_interval_ms(group.group_id)
        age_ms = self._clock.wall_ms() - group.target_timestamp_ms
        if member.is_settled(group.epoch) and not 0 <= age_ms < usual:
            return usual
        most = 1000 * len(group.members) // BEATS_A_SECOND_MAX
        left_ms = self._interval.left_ms(group) if group.epoch > group.target_epoch else 0
        return min(usual, max(most, left_ms, self._settings.rebalance_heartbeat_interval_ms))

    def _leave(self, group_id: str, beat: ConsumerHeartbeat, reply: Callable[[ConsumerHeartbeatResult], None]) -> None:
        def change(draft: ConsumerGroup) -> Finish:
            membership.leave(draft, beat)
            self.note_topics(draft)
            log.info(
                "group %s: member %s %s", group_id, beat.member_id, "goes away" if beat.epoch == GOES_AWAY else "leaves"
            )
            return lambda _: ConsumerHeartbeatResult(member_id=beat.member_id, epoch=beat.epoch)

        self.turns.submit(
            group_id, change, lambda outcome: reply(refused(outcome) if isinstance(outcome, KafkaError) else outcome)
        )

    # --- epochs and targets -------------------------------------------------------------------------------------------

    def progress(self, draft: ConsumerGroup, member_id: str, owned: frozenset[Partition] | None) -> ConsumerMember:
        """Move a member one step towards the target.

        If the target is outdated, also revoke partitions of topics that the member no longer subscribes to.
        """
        old = draft.epoch > draft.target_epoch
        meant = assignment.meant_by(draft, self._view, member_id) if old else None
        return membership.progress(draft, member_id, owned, meant)

    def look_again(self, draft: ConsumerGroup, epoch: int, may_read: MayRead) -> None:
        """Raise the epoch if it is still `epoch` and the members' topics have changed since the last check."""
        now_ms = self._clock.wall_ms()
        if draft.looked_at != self._view.version or self._regexes_are_old(draft, now_ms):
            assignment.resolve_again(draft, self._view, may_read, now_ms)
            assignment.look_at_topics(draft, self._view, raised=draft.epoch > epoch)

    def note_topics(self, draft: ConsumerGroup) -> None:
        """Record the topics that members subscribe to, after the epoch was raised."""
        assignment.note_topics(draft, self._view)

    def _regexes_are_old(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Return whether regular expressions need a refresh: a member's permissions can change without a change of
        topics."""
        interval_ms = self._settings.regex_refresh_interval_ms
        return any(now_ms - resolved.timestamp_ms >= interval_ms for resolved in group.regexes.values())

    def _assign(self, draft: ConsumerGroup) -> None:
        if not self._interval.is_over(draft):
            return
        assignment.assign(draft, self._view, self._settings.assignors, self._clock.wall_ms())
        self._assigned()

    def _assign_now(self, group_id: str) -> None:
        """Compute the target that the assignment interval delayed."""

        def change(draft: ConsumerGroup) -> Finish:
            if draft.epoch > draft.target_epoch:
                self.note_topics(draft)
            return lambda _: None

        self.turns.submit_until_stored(group_id, change, partial(self._interval.again, group_id))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _changed(self, before: ConsumerGroup | None, after: ConsumerGroup) -> None:
        group_id = after.group_id
        known = {} if before is None else before.members
        for member_id in known.keys() - after.members.keys():
            self._timers.cancel(_session(group_id, member_id))
            self._timers.cancel(_revocation(group_id, member_id))
            if group_id in self._answers:
                self._answers[group_id].forget(member_id)
        for member_id, member in after.members.items():
            was = known.get(member_id)
            if was is member:
                continue
            # A member that rejoined during the write that ended its session has no session timer either.
            if was is None or _session(group_id, member_id) not in self._timers:
                self._watch_session(group_id, member)
            if member.state is not ConsumerMemberState.UNREVOKED:
                self._timers.cancel(_revocation(group_id, member_id))
            elif was is None or was.revoking != member.revoking:
                self._watch_revocation(group_id, member)
        self._told(after)

    def keep_alive(self, group_id: str, member: ConsumerMember) -> None:
        """Extend the member's session."""
        self._timers.touch(_session(group_id, member.member_id), self._session_timeout_ms(group_id, member))

    def _session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        classic = member.subscription.classic
        return self._settings.session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms

    def _watch_session(self, group_id: str, member: ConsumerMember) -> None:
        self._timers.schedule(
            _session(group_id, member.member_id),
            self._session_timeout_ms(group_id, member),
            partial(self._session_over, group_id, member.member_id),
        )

    def _session_over(self, group_id: str, member_id: str) -> None:
        group, answers = self.get(group_id), self._answers.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if answers is not None and member is not None:
            left_ms = answers.session_left_ms(member_id, self._session_timeout_ms(group_id, member))
            if left_ms:
                self._timers.schedule(
                    _session(group_id, member_id), left_ms, partial(self._session_over, group_id, member_id)
                )
                return
        self.expire(group_id, member_id, "its session is over", lambda _: True)

    def _watch_revocation(self, group_id: str, member: ConsumerMember) -> None:
        revoking = member.revoking
        self._timers.schedule(
            _revocation(group_id, member.member_id),
            member.subscription.rebalance_timeout_ms,
            lambda: self.expire(
                group_id,
                member.member_id,
                "it did not give up its revoked partitions in time",
                lambda now: now.state is ConsumerMemberState.UNREVOKED and now.revoking == revoking,
            ),
        )

    def expire(self, group_id: str, member_id: str, reason: str, still: Callable[[ConsumerMember], bool]) -> None:
        """Remove a member if `still` holds for it."""

        def change(draft: ConsumerGroup) -> Finish:
            member = draft.members.get(member_id)
            if member is not None and still(member):
                log.info("group %s: member %s is removed: %s", group_id, member_id, reason)
                membership.remove(draft, member_id)
                self.note_topics(draft)
            return lambda _: None

        later = partial(self._timers.schedule, _session(group_id, member_id), EXPIRY_RETRY_MS)
        self.turns.submit_until_stored(group_id, change, later)

    # --- loading and ending groups ------------------------------------------------------------------------------------

    def install(self, group_id: str, stored: StoredConsumerGroup) -> None:
        """Install a loaded group and start a new session for each member; no coordinator received heartbeats during the
        load."""
        group = stored.group(group_id)
        if group is not None:
            self.turns.load(group)

    def drop(self, group: ConsumerGroup, error: ErrorCode) -> Records:
        """End a group that was deleted or replaced; return its tombstones."""
        self.give_up(group, error)
        return records.tombstones(group)

    def give_up(self, group: ConsumerGroup, error: ErrorCode) -> None:
        """End the group: waiting clients get `error`, and timers stop."""
        self.cancel_timers(group)
        self.turns.forget(group.group_id, error)

    def cancel_timers(self, group: ConsumerGroup) -> None:
        """Stop the group's timers and invalidate its cached responses."""
        self._moves(group.group_id)
        self._answers.pop(group.group_id, None)
        self._interval.forget(group.group_id)
        for member_id in group.members:
            self._timers.cancel(_session(group.group_id, member_id))
            self._timers.cancel(_revocation(group.group_id, member_id))

    def give_up_all(self, error: ErrorCode) -> None:
        """End all groups when the shard moves away or the broker stops."""
        for group in self.all():
            self.give_up(group, error)
        self.turns.forget_all(error)


def refused(error: KafkaError) -> ConsumerHeartbeatResult:
    """Return the result for a refused heartbeat."""
    return ConsumerHeartbeatResult(ErrorCode(error.code), error.message)


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "consumer session", group_id, member_id


def _revocation(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "consumer revocation", group_id, member_id
