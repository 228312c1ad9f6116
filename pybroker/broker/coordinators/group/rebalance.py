"""Rebalances of classic groups: the members agree on one generation with one assignment.

All functions are synchronous, on the event loop's thread: they change the group, answer held requests and set timers.
`GroupStore.store` makes changes durable, and its callback continues once the record is on disk. Behaviour follows
Kafka's classic coordinator (KIP-62, 134, 345, 394, 559, 800, 814).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group.classic_group import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    JoinReply,
    JoinResult,
    SyncReply,
    SyncResult,
    new_member_id,
)
from pybroker.broker.coordinators.group.interfaces import GroupSettings, GroupStore
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.requests import JoinRequest, LeavingMember, SyncRequest
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""Timeout in milliseconds of a new member's held JoinGroup, as in Kafka. The member cannot send heartbeats until it
knows its id."""

PENDING_JOINS_MAX = 10_000
"""Limit of member ids that a group has assigned but that no client has used yet. It limits the memory that clients can
take by requesting ids."""

ID_RETURN_MS_MAX = 1_000
"""Limit in milliseconds of an additional wait at the end of a group's initial delay. In this time, clients that got a
member id can join with it.

Without this wait, clients that start together would need a second rebalance, which takes until each member's next
heartbeat.
"""

JOIN_RETRY_MS_MIN = 1_000
"""Minimum number of milliseconds before a join phase without members is checked again, even if the members' timeout is
shorter."""


class ClassicRebalances:
    """The rebalances of all classic groups of one shard."""

    def __init__(
        self, settings: GroupSettings, clock: Clock, timers: TimerWheel, store: GroupStore, statistics: GroupStatistics
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._store = store
        self._statistics = statistics

    # --- JoinGroup ----------------------------------------------------------------------------------------------------

    def join(self, group: ClassicGroup, request: JoinRequest, reply: JoinReply) -> None:
        """Handle a JoinGroup: answer immediately, or hold the request until the rebalance ends."""
        if group.state is ClassicGroupState.DEAD:
            reply(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
        elif not self._has_room(group, request.member_id):
            # The group may have become too small for its members (group.max.size was lowered). If so, remove the member
            # that rejoins.
            self._forget(group, request.member_id)
            reply(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
            self._complete_if_all_joined(group)
        elif not group.supports(request.protocol_type, (name for name, _ in request.protocols)):
            reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        elif not request.member_id:
            self._join_new(group, request, reply)
        elif request.member_id in group.pending_joins and request.instance_id is None:
            self._add(group, request, request.member_id, reply)
        else:
            self._join_known(group, request, reply)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.EMPTY:
            return len(group.pending_joins) < PENDING_JOINS_MAX or bool(member_id)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            # Count held joins instead of members. After an operator lowers the limit, the members that rejoin last are
            # refused.
            return (member is not None and member.reply_join is not None) or (
                group.awaiting_join < self._settings.max_size
                and (bool(member_id) or len(group.pending_joins) < PENDING_JOINS_MAX)
            )
        return member is not None or (
            len(group.members) < self._settings.max_size
            and (bool(member_id) or len(group.pending_joins) < PENDING_JOINS_MAX)
        )

    def _join_new(self, group: ClassicGroup, request: JoinRequest, reply: JoinReply) -> None:
        member_id = new_member_id(request.client_id, request.instance_id)
        if request.instance_id is not None:
            if request.instance_id in group.static_members:
                self._replace_static(group, request, member_id, reply)
            else:
                self._add(group, request, member_id, reply)
        elif request.requires_known_member_id:
            group.expect(member_id)
            self._watch_session(group, member_id, request.session_timeout_ms)
            reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, request, member_id, reply)

    def _join_known(self, group: ClassicGroup, request: JoinRequest, reply: JoinReply) -> None:
        try:
            member = group.check_member(request.member_id, request.instance_id)
        except KafkaError as error:
            reply(JoinResult(ErrorCode(error.code), request.member_id))
            return
        if group.state is ClassicGroupState.EMPTY:
            reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return
        unchanged = member.protocols == request.protocols
        leads = group.leader_id == member.member_id
        if unchanged and (
            group.state is ClassicGroupState.COMPLETING_REBALANCE
            or (group.state is ClassicGroupState.STABLE and not leads)
        ):
            # A member that repeats a JoinGroup has lost the response, and gets it again. The leader of a stable group
            # is an exception: its JoinGroup requests a new assignment.
            reply(group.join_result(member.member_id))
            return
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        group.park_join(member, reply)
        self._rebalance_or_complete(group, f"member {member.member_id} joins again: {request.reason}")

    def _add(self, group: ClassicGroup, request: JoinRequest, member_id: str, reply: JoinReply) -> None:
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            request.protocols,
            is_new=True,
        )
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.in_initial_delay:
            group.new_member_added = True
        group.add(member)
        group.park_join(member, reply)
        self._watch_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_or_complete(group, f"member {member_id} joins: {request.reason}")

    def _replace_static(self, group: ClassicGroup, request: JoinRequest, member_id: str, reply: JoinReply) -> None:
        """Handle the return of a static member (KIP-345). In a stable group it resumes without a rebalance."""
        instance_id = request.instance_id
        assert instance_id is not None
        old_leader = group.leader_id
        old_member_id = group.static_members[instance_id]
        self._timers.cancel(("session", group.group_id, old_member_id))
        member = group.replace_static(instance_id, member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._watch_session(group, member_id, request.session_timeout_ms)
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        group.park_join(member, reply)
        reason = f"static member {instance_id} returns as {member_id}: {request.reason}"
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            # The leader's assignment names the old member id. Only a rebalance gives the partitions to the new id.
            self._prepare(group, reason)
            return
        if group.state is not ClassicGroupState.STABLE:
            self._complete_if_all_joined(group)
            return
        if group.select_protocol() != group.protocol_name:
            self._prepare(group, reason)
            return

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                log.warning("group %s: the return of %s was not stored (%s)", group.group_id, instance_id, error.name)
                group.answer_join(member, JoinResult(error, ""))
                if group.static_members.get(instance_id) == member_id:
                    self._timers.cancel(("session", group.group_id, member_id))
                    group.replace_static(instance_id, old_member_id)
                    group.update(member, *before)
                    self._watch_session(group, old_member_id, member.session_timeout_ms)
            elif request.supports_skipping_assignment:
                group.answer_join(member, group.join_result(member_id, skip_assignment=True))
            else:
                # Name another member as leader: a client that does not support skip_assignment would otherwise compute
                # an assignment.
                group.answer_join(
                    member,
                    JoinResult(
                        ErrorCode.NONE,
                        member_id,
                        group.generation,
                        group.protocol_type,
                        group.protocol_name,
                        old_leader or "",
                    ),
                )

        self._store.store(group, {m.member_id: m.assignment for m in group.members.values()}, stored)

    # --- rebalances ---------------------------------------------------------------------------------------------------

    def _rebalance_or_complete(self, group: ClassicGroup, reason: str) -> None:
        if group.can_rebalance:
            self._prepare(group, reason)
        else:
            self._complete_if_all_joined(group)

    def rebalance(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance, unless a rebalance is already running. Members learn about it from the response to their
        next heartbeat."""
        if group.members and group.can_rebalance:
            self._prepare(group, reason)

    def _prepare(self, group: ClassicGroup, reason: str) -> None:
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._timers.cancel(("sync", group.group_id))
        initial = group.is_in(ClassicGroupState.EMPTY)
        group.transition_to(ClassicGroupState.PREPARING_REBALANCE, self._clock.wall_ms())
        log.info("group %s generation %d rebalances: %s", group.group_id, group.generation, reason)
        if initial:
            # The consumers of one application start shortly after each other. The delay avoids a rebalance for each
            # consumer.
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._await_first(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_joined:
            self._complete_join(group)
        else:
            self._complete_join_in(group, group.rebalance_timeout_ms)

    def _await_first(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def over() -> None:
            if group.state is not ClassicGroupState.PREPARING_REBALANCE:
                return
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                again_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
                self._await_first(group, again_ms, max(remaining_ms - delay_ms, 0))
            elif group.pending_joins:
                group.in_initial_delay = False
                self._complete_join_in(group, min(ID_RETURN_MS_MAX, group.rebalance_timeout_ms))
            else:
                self._complete_join(group)

        group.in_initial_delay = True
        self._timers.schedule(("join", group.group_id), delay_ms, over)

    def _complete_if_all_joined(self, group: ClassicGroup) -> None:
        """End the join phase early, except during a group's initial delay."""
        if group.state is ClassicGroupState.PREPARING_REBALANCE and not group.in_initial_delay and group.all_joined:
            self._complete_join(group)

    def _complete_join_in(self, group: ClassicGroup, delay_ms: int) -> None:
        """End the join phase after the delay, even if some members have not joined."""
        self._timers.schedule(("join", group.group_id), delay_ms, lambda: self._complete_join(group))

    def _complete_join(self, group: ClassicGroup) -> None:
        """End the join phase. Remove dynamic members that have not rejoined, and send the new generation to the other
        members."""
        if group.state is not ClassicGroupState.PREPARING_REBALANCE:
            return
        self._timers.cancel(("join", group.group_id))
        for member in [m for m in group.members.values() if m.reply_join is None and not m.is_static]:
            log.info("group %s: member %s did not join again in time", group.group_id, member.member_id)
            self._forget(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members remain, and none of them has rejoined: wait for their sessions to expire.
            self._complete_join_in(group, max(group.rebalance_timeout_ms, JOIN_RETRY_MS_MIN))
            return
        group.new_member_added = group.in_initial_delay = False
        group.next_generation(self._clock.wall_ms())
        self._store.formed(group)
        if group.is_in(ClassicGroupState.EMPTY):
            log.info("group %s is empty at generation %d", group.group_id, group.generation)

            def stored(error: ErrorCode) -> None:
                # If a crash prevents this write, the next load restores the last stored generation, and its members'
                # sessions expire.
                if error is not ErrorCode.NONE:
                    log.warning("group %s: its emptiness was not stored (%s)", group.group_id, error.name)

            self._store.store(group, {}, stored)
            return
        log.info("group %s formed generation %d with %d members", group.group_id, group.generation, len(group.members))
        for member in group.members.values():
            self._watch_session(group, member.member_id, member.session_timeout_ms)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._await_syncs(group)
        for member in list(group.members.values()):
            group.answer_join(member, group.join_result(member.member_id))

    def _await_syncs(self, group: ClassicGroup) -> None:
        generation = group.generation

        def over() -> None:
            if group.generation != generation or not group.is_in(
                ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE
            ):
                return
            if group.pending_syncs:
                missing = sorted(group.pending_syncs)
                for member_id in missing:
                    self._forget(group, member_id)
                self._prepare(group, f"no SyncGroup from {', '.join(missing)}")

        self._timers.schedule(("sync", group.group_id), group.rebalance_timeout_ms, over)

    # --- SyncGroup ----------------------------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: SyncRequest, reply: SyncReply) -> None:
        """Handle a SyncGroup: answer immediately, or hold the request until the leader's assignment is stored."""
        if group.state is ClassicGroupState.DEAD:
            reply(SyncResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        try:
            member = group.check_member(request.member_id, request.instance_id)
        except KafkaError as error:
            reply(SyncResult(ErrorCode(error.code)))
            return
        if request.generation != group.generation:
            reply(SyncResult(ErrorCode.ILLEGAL_GENERATION))
        elif _differs(request.protocol_type, group.protocol_type) or _differs(
            request.protocol_name, group.protocol_name
        ):
            reply(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif group.state is ClassicGroupState.PREPARING_REBALANCE:
            reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
            member.park_sync(reply)
            self._sync_came(group, member.member_id)
            if group.leader_id == member.member_id:
                self._store_assignment(group, request.assignments)
        elif group.state is ClassicGroupState.STABLE:
            self._sync_came(group, member.member_id)
            reply(_assignment(group, member))
        else:
            reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))

    def _sync_came(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(("sync", group.group_id))

    def _store_assignment(self, group: ClassicGroup, assignments: Iterable[tuple[str, bytes]]) -> None:
        generation = group.generation
        by_member = dict(assignments)
        wanted = {member_id: by_member.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode) -> None:
            # If a member joined or left during the write, the next rebalance has answered the held SyncGroups.
            if group.state is not ClassicGroupState.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error is not ErrorCode.NONE:
                self._answer_syncs(group, error)
                self._prepare(group, f"the assignment was not stored ({error.name})")
                return
            for member in group.members.values():
                member.assignment = wanted.get(member.member_id, b"")
            group.transition_to(ClassicGroupState.STABLE, self._clock.wall_ms())
            self._statistics.completed_rebalances += 1
            for member in list(group.members.values()):
                if member.answer_sync(_assignment(group, member)):
                    self._watch_session(group, member.member_id, member.session_timeout_ms)

        self._store.store(group, wanted, stored)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in list(group.members.values()):
            member.assignment = b""
            if member.answer_sync(SyncResult(error)):
                # The member's session timer was stopped while the coordinator held the request.
                self._watch_session(group, member.member_id, member.session_timeout_ms)

    # --- Heartbeat, LeaveGroup, sessions ------------------------------------------------------------------------------

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Handle a Heartbeat: extend the session. Not a coroutine, because an idle cluster gets more heartbeats than
        other requests."""
        if group.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = group.check_member(member_id, instance_id)
        except KafkaError as error:
            return ErrorCode(error.code)
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is ClassicGroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.keep_alive(group, member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def keep_alive(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Extend the session of a member that sent a heartbeat or a commit."""
        if not self._timers.touch(("session", group.group_id, member.member_id), member.session_timeout_ms):
            self._watch_session(group, member.member_id, member.session_timeout_ms)

    def heard_commit(self, group: ClassicGroup, member_id: str) -> None:
        """Extend the session of a member that has committed, except while the group waits for SyncGroups."""
        member = group.members.get(member_id)
        if member is not None and group.is_in(ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
            self.keep_alive(group, member)

    def leave(self, group: ClassicGroup, leaving: Iterable[LeavingMember]) -> list[ErrorCode]:
        """Remove members; return one error code per member, in order."""
        if group.state is ClassicGroupState.DEAD:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE for _ in leaving]
        answers = [self._leave_one(group, member) for member in leaving]
        if ErrorCode.NONE in answers:
            if group.is_in(ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
                self._prepare(group, "members left")
            elif group.state is ClassicGroupState.PREPARING_REBALANCE:
                self._complete_if_all_joined(group)
            elif group.state is ClassicGroupState.EMPTY:
                self._store.emptied(group)
        return answers

    def _leave_one(self, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            if leaving.instance_id is None or leaving.instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[leaving.instance_id]
        elif member_id not in group.pending_joins:
            try:
                group.check_member(member_id, leaving.instance_id)
            except KafkaError as error:
                return ErrorCode(error.code)
        log.info("group %s: member %s leaves: %s", group.group_id, member_id, leaving.reason)
        self._forget(group, member_id)
        return ErrorCode.NONE

    def _watch_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self._timers.schedule(
            ("session", group.group_id, member_id), timeout_ms, lambda: self._session_over(group, member_id)
        )

    def _session_over(self, group: ClassicGroup, member_id: str) -> None:
        if group.state is ClassicGroupState.DEAD:
            return
        member = group.members.get(member_id)
        if member is None:
            if member_id not in group.pending_joins:
                return
            group.drop_expected(member_id)
            if group.state is ClassicGroupState.EMPTY:
                self._store.emptied(group)
        elif member.awaits_rebalance:
            # A held request counts as a heartbeat; its response restarts the session timer.
            return
        elif left_ms := group.cached_responses.session_left_ms(member_id, member.session_timeout_ms):
            self._watch_session(group, member_id, left_ms)
            return
        else:
            log.info("group %s: the session of member %s is over", group.group_id, member_id)
            group.remove(member_id)
            if group.is_in(ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
                self._prepare(group, f"the session of {member_id} is over")
                return
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.all_joined:
            self._complete_join(group)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self._timers.cancel(("session", group.group_id, member_id))

    # --- loading, freezing and ending groups --------------------------------------------------------------------------

    def resume(self, group: ClassicGroup) -> None:
        """Start a new session for each member of a loaded group: heartbeats could not reach a coordinator while the
        group was loading."""
        for member in group.members.values():
            self._watch_session(group, member.member_id, member.session_timeout_ms)
        if len(group.members) > self._settings.max_size:
            self._prepare(group, "it was loaded with more members than group.max.size allows")

    def freeze(self, group: ClassicGroup) -> None:
        """Stop the group before it changes to another protocol: held requests get REBALANCE_IN_PROGRESS, and timers
        stop."""
        group.cached_responses.invalidate()
        group.in_initial_delay = False
        for member in group.members.values():
            group.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self._cancel_timers(group)

    def thaw(self, group: ClassicGroup) -> None:
        """Resume the group after a failed upgrade: each member has a new session in which to rejoin."""
        self.resume(group)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._complete_join_in(group, group.rebalance_timeout_ms)
        else:
            self.rebalance(group, "it could not be upgraded")

    def give_up(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """End the group (deleted, expired, or moved away): held requests get `error`, and timers stop."""
        for member in group.members.values():
            group.answer_join(member, JoinResult(error, member.member_id))
            member.answer_sync(SyncResult(error))
        self._cancel_timers(group)
        group.transition_to(ClassicGroupState.DEAD, now_ms)

    def _cancel_timers(self, group: ClassicGroup) -> None:
        for member_id in [*group.members, *group.pending_joins]:
            self._timers.cancel(("session", group.group_id, member_id))
        self._timers.cancel(("join", group.group_id))
        self._timers.cancel(("sync", group.group_id))


def _differs(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current


def _assignment(group: ClassicGroup, member: ClassicMember) -> SyncResult:
    return SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name)
