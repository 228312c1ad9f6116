"""The behaviour of consumer groups (KIP-848): their heartbeats, target assignments and timeouts.

Pure functions in `membership`, `assignment` and `reconciliation` make the decisions.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.consumer import assignment, membership, records
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    MayRead,
    Partition,
)
from pybroker.broker.coordinators.consumer.settings import ConsumerSettings
from pybroker.broker.coordinators.consumer.topics import resolve
from pybroker.broker.coordinators.group_base.epoch_kind import EpochKind
from pybroker.broker.coordinators.group_base.group_registry import Group
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.topics_hash import TopicView

BEATS_A_SECOND_MAX = 500
"""Limit of one group's heartbeats per second during a rebalance. A large group must not delay other groups."""


class ConsumerKind(EpochKind[ConsumerGroup, ConsumerHeartbeat, ConsumerHeartbeatResult]):
    group_type = ConsumerGroup
    changes = staticmethod(records.changes)
    tombstones = staticmethod(records.tombstones)
    result_type = ConsumerHeartbeatResult

    def __init__(
        self,
        clock: Clock,
        view: TopicView,
        settings: ConsumerSettings,
        statistics: GroupStatistics,
        *,
        upgrade: Callable[[ConsumerGroup], None],
        changed: Callable[[ConsumerGroup], None],
    ) -> None:
        """upgrade: fills a new group with the members of the classic group that the new group replaces. changed: called
        with each group after a change."""
        self._clock = clock
        self._view = view
        self._settings = settings
        self._statistics = statistics
        self._upgrade = upgrade
        self._changed = changed

    # --- members ------------------------------------------------------------------------------------------------------

    def member_metadata(self, group: ConsumerGroup) -> dict[str, ConsumerSubscription]:
        return {member_id: member.subscription for member_id, member in group.members.items()}

    def may_replace(self, classic: Group) -> bool:
        """Return whether the new group may replace this classic group: it has no members, or
        group.consumer.migration.policy allows its upgrade."""
        return not classic.members or self._settings.upgrades

    def answer(self, group: ConsumerGroup, beat: ConsumerHeartbeat) -> ConsumerHeartbeatResult | None:
        member = group.members[beat.member_id]
        if (
            not beat.is_plain
            or member.is_classic
            or beat.instance_id not in (None, member.instance_id)
            or member.state is not ConsumerMemberState.STABLE
            or self._regexes_are_old(group)
        ):
            return None
        return structs.replace(self._result(group, member, with_assignment=False), cacheable=self._rests(group))

    def _rests(self, group: ConsumerGroup) -> bool:
        """Return whether the response does not change as time passes: no regular expression is due for a refresh, and
        no assignment interval is running."""
        age_ms = self._clock.wall_ms() - group.target_timestamp_ms
        return not group.regexes and age_ms >= self._settings.heartbeat_interval_ms(group.group_id)

    def join(
        self, draft: ConsumerGroup, beat: ConsumerHeartbeat
    ) -> Callable[[ConsumerGroup], ConsumerHeartbeatResult]:
        trial = draft
        if not draft.epoch:
            # Fill the group only after the member has been accepted.
            trial = draft.fork()
            self._upgrade(trial)
        epoch, now_ms = trial.epoch, self._clock.wall_ms()
        before = membership.enter(
            trial, beat, self._settings.max_size, lambda regex: resolve(regex, self._view, beat.may_read, now_ms)
        )
        if trial is not draft:
            draft.become(trial)
        self.look_again(draft, epoch, beat.may_read)

        def finish(draft: ConsumerGroup) -> ConsumerHeartbeatResult:
            moved = self.progress(draft, beat.member_id, beat.owned)
            with_assignment = beat.is_full or before is None or moved.assigned.keys() != before.assigned.keys()
            return self._result(draft, moved, with_assignment=with_assignment)

        return finish

    def leave(self, draft: ConsumerGroup, beat: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        membership.leave(draft, beat)
        self.note_topics(draft)
        return ConsumerHeartbeatResult(member_id=beat.member_id, epoch=beat.epoch)

    def remove(self, draft: ConsumerGroup, member_id: str) -> None:
        membership.remove(draft, member_id)
        self.note_topics(draft)

    def _result(
        self, group: ConsumerGroup, member: ConsumerMember, *, with_assignment: bool
    ) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=self._interval_ms(group, member),
            assigned=frozenset(member.assigned) if with_assignment else None,
        )

    def _interval_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        """Return the member's heartbeat interval, which is shorter during a rebalance.

        Heartbeat responses tell members to revoke partitions, and give these partitions to other members. A rebalance
        therefore takes several heartbeats.
        """
        usual = self._settings.heartbeat_interval_ms(group.group_id)
        age_ms = self._clock.wall_ms() - group.target_timestamp_ms
        if member.is_settled(group.epoch) and not 0 <= age_ms < usual:
            return usual
        most = 1000 * len(group.members) // BEATS_A_SECOND_MAX
        left_ms = self.groups.interval.left_ms(group) if group.epoch > group.target_epoch else 0
        return min(usual, max(most, left_ms, self._settings.rebalance_heartbeat_interval_ms))

    def session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        classic = member.subscription.classic
        return self._settings.session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms

    def revocation(self, member: ConsumerMember) -> tuple[int, object] | None:
        if member.state is not ConsumerMemberState.UNREVOKED:
            return None
        return member.subscription.rebalance_timeout_ms, member.revoking

    def changed(self, group: ConsumerGroup) -> None:
        self._changed(group)

    # --- epochs and targets -------------------------------------------------------------------------------------------

    def progress(self, draft: ConsumerGroup, member_id: str, owned: frozenset[Partition] | None) -> ConsumerMember:
        """Move a member one step towards its target assignment.

        If the target assignment is outdated, also revoke partitions of topics to which the member no longer subscribes.
        """
        old = draft.epoch > draft.target_epoch
        meant = assignment.meant_by(draft, self._view, member_id) if old else None
        return membership.progress(draft, member_id, owned, meant)

    def look_again(self, draft: ConsumerGroup, epoch: int, may_read: MayRead) -> None:
        """Raise the group epoch if it is still `epoch` and the members' topics have changed since the last check."""
        if draft.looked_at != self._view.version or self._regexes_are_old(draft):
            assignment.resolve_again(draft, self._view, may_read, self._clock.wall_ms())
            assignment.look_at_topics(draft, self._view, raised=draft.epoch > epoch)

    def note_topics(self, draft: ConsumerGroup) -> None:
        """Record the topics that members subscribe to, after the epoch was raised."""
        assignment.note_topics(draft, self._view)

    def _regexes_are_old(self, group: ConsumerGroup) -> bool:
        """Return whether regular expressions have to be matched again. A member's permissions may have changed, even if
        the topics have not."""
        now_ms, interval_ms = self._clock.wall_ms(), self._settings.regex_refresh_interval_ms
        return any(now_ms - resolved.timestamp_ms >= interval_ms for resolved in group.regexes.values())

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._settings.assignment_interval_ms(group_id)

    def before_target(self, draft: ConsumerGroup) -> None:
        if draft.epoch > draft.target_epoch:
            self.note_topics(draft)

    def assign(self, draft: ConsumerGroup) -> None:
        assignment.assign(draft, self._view, self._settings.assignors, self._clock.wall_ms())
        self._statistics.consumer_rebalances += 1
