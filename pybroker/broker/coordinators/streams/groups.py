"""The streams groups of one shard: heartbeats, sessions and timeouts.

Pure functions on copies make the decisions (`membership`, `topology`, `reconciliation`); `turns` makes them durable.
Everything here is synchronous, on the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.consumer.topics import TopicView, hash_of
from pybroker.broker.coordinators.group.group import Group, GroupRegistry
from pybroker.broker.coordinators.shards.assignment_interval import AssignmentInterval
from pybroker.broker.coordinators.shards.said import SHARED
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.shards.turns import EpochKind, GroupTurns, Outcome, Records, Write
from pybroker.broker.coordinators.shards.turns import Finish as Finishing
from pybroker.broker.coordinators.streams import membership, records
from pybroker.broker.coordinators.streams.endpoints import partitions_by_endpoint
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import (
    GOES_AWAY,
    JOINS,
    MissingTopic,
    Status,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsMember,
    StreamsMemberState,
)
from pybroker.broker.coordinators.streams.records import StoredStreamsGroup
from pybroker.broker.coordinators.streams.settings import StreamsSettings
from pybroker.broker.coordinators.streams.topology import (
    ConfiguredTopology,
    MissingInternal,
    MissingSources,
    PartitionCountError,
    Topology,
    Unfit,
    configure,
)
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


def _said(group: StreamsGroup) -> dict[str, object]:
    said: dict[str, object] = {
        member_id: (member.said, group.reported.get(member_id)) for member_id, member in group.members.items()
    }
    return {**said, SHARED: group.topology} if said else said


KIND = EpochKind(StreamsGroup, records.changes, records.tombstones, _said)
Finish = Finishing[StreamsGroup]

RETRY_MS = 1_000
"""Delay before retrying a failed write."""

_CODES: dict[type[Unfit], StatusCode] = {
    MissingSources: StatusCode.MISSING_SOURCE_TOPICS,
    PartitionCountError: StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
    MissingInternal: StatusCode.MISSING_INTERNAL_TOPICS,
}


class StreamsGroupDependencies(msgspec.Struct, frozen=True):
    """The dependencies that the streams groups of all shards have in common."""

    clock: Clock
    timers: TimerWheel
    view: TopicView
    settings: StreamsSettings
    assigned: Callable[[], None]
    """Called for each new target."""


class StreamsGroups:
    """The streams groups of one shard."""

    def __init__(
        self,
        ground: StreamsGroupDependencies,
        registry: GroupRegistry,
        write: Write,
        replaces: Callable[[Group], None],
    ) -> None:
        """replaces: called with each group that a new one replaces."""
        self._ground = ground
        self._waiting: set[str] = set()
        """Groups that delay their first assignment until more members have joined."""
        self._interval = AssignmentInterval(
            ground.clock, ground.timers, ground.settings.assignment_interval_ms, self._assign_now
        )
        self.turns = GroupTurns(KIND, registry, write, assign=self._assign, changed=self._changed, replaces=replaces)
        self.get, self.all = self.turns.get, self.turns.all

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        group_id: str,
        beat: StreamsHeartbeat,
        reply: Callable[[StreamsHeartbeatResult], None],
        *,
        also: Records | None = None,
    ) -> None:
        """Handle a valid StreamsGroupHeartbeat; `reply` gets the result once the changes are durable.

        `also`: records to write with the first member of a group.
        """
        if beat.epoch < JOINS:
            self._leave(group_id, beat, reply)
            return
        group = self.get(group_id)
        if group is not None and (answer := self._at_once(group, beat)) is not None:
            reply(answer)
            return

        def change(draft: StreamsGroup) -> Finish:
            trial = draft.fork()
            was_empty = not trial.members
            entered = membership.enter(trial, beat, self._ground.settings.max_size)
            matters = self._look(trial) or entered.matters
            if matters:
                trial.epoch += 1
            draft.become(trial)
            if beat.shutdown:
                membership.ask_shutdown(draft, beat.member_id)
            if was_empty:
                self._wait_for_others(group_id)
            if entered.before is None:
                log.info("streams group %s: member %s joins at epoch %d", group_id, beat.member_id, draft.epoch)

            def finish(draft: StreamsGroup) -> Outcome:
                moved = membership.progress(draft, beat.member_id, beat.owned)
                before = entered.before
                changed = before is None or moved.assigned != before.assigned
                endpoint_changed = moved.said.endpoint != (None if before is None else before.said.endpoint)
                if endpoint_changed or (changed and moved.said.endpoint is not None):
                    draft.endpoint_epoch += 1
                # A member that reports other tasks may have missed the response with its assignment.
                differs = beat.owned is not None and beat.owned != moved.assigned.tasks
                return self._result(draft, moved, beat, told=changed or differs or beat.epoch == JOINS)

            return finish

        def answered(outcome: Outcome) -> None:
            reply(refused(outcome) if isinstance(outcome, KafkaError) else outcome)

        # The session must not depend on how long a write takes.
        if group is not None and beat.member_id in group.members:
            self._keep_alive(group_id, beat.member_id)
        self.turns.submit(group_id, change, answered, also=also)

    def _at_once(self, group: StreamsGroup, beat: StreamsHeartbeat) -> StreamsHeartbeatResult | None:
        """Return the result for a heartbeat that changes nothing, as nearly all do; None for others."""
        member = group.members.get(beat.member_id)
        if (
            member is None
            or not beat.is_plain
            or beat.epoch != member.epoch
            or beat.instance_id not in (None, member.instance_id)
            or not member.is_settled(group.target_epoch)
            or group.epoch != group.target_epoch
            or group.configured is None
            or group.looked_at != self._ground.view.version
            or group.assignor_settings != self._ground.settings.of_assignor(group.group_id)
            or not self.turns.is_quiet(group.group_id)
        ):
            return None
        self._keep_alive(group.group_id, beat.member_id)
        return self._result(group, member, beat, told=False)

    def _result(
        self, group: StreamsGroup, member: StreamsMember, beat: StreamsHeartbeat, *, told: bool
    ) -> StreamsHeartbeatResult:
        group_id, settings = group.group_id, self._ground.settings
        knows = beat.endpoint_epoch == group.endpoint_epoch
        return StreamsHeartbeatResult(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=settings.heartbeat_interval_ms(group_id),
            offset_interval_ms=settings.task_offset_interval_ms(group_id),
            recovery_lag=settings.recovery_lag(group_id),
            statuses=tuple(self._statuses(group, member, beat)),
            assigned=member.assigned.tasks if told else None,
            endpoint_epoch=group.endpoint_epoch,
            endpoints=None if knows else partitions_by_endpoint(group, self._partitions),
            missing=_missing(group.configured),
        )

    def _statuses(self, group: StreamsGroup, member: StreamsMember, beat: StreamsHeartbeat) -> list[Status]:
        found: list[Status] = []
        topology = group.topology
        if topology is not None and member.said.topology_epoch < topology.epoch:
            found.append(
                Status(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch {member.said.topology_epoch} is behind the group's topology epoch"
                    f" {topology.epoch}.",
                )
            )
        if group.epoch > group.target_epoch:
            why = "initial rebalance delay" if group.group_id in self._waiting else "assignment interval"
            found.append(Status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {why}."))
        problem = None if group.configured is None else group.configured.problem
        if problem is not None:
            found.append(Status(_CODES[type(problem)], str(problem)))
        if group.shutdown_by is not None:
            found.append(
                Status(
                    StatusCode.SHUTDOWN_APPLICATION,
                    f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for"
                    " the entire application.",
                )
            )
        tags = self._ground.settings.tags(group.group_id)
        if beat.knows_tags and (lacking := [tag for tag in tags if tag not in member.said.tags]):
            found.append(
                Status(
                    StatusCode.MISSING_CLIENT_TAGS,
                    "Missing required client tags for rack-aware standby assignment:"
                    f" [{', '.join(lacking)}]. Configure them via 'client.tag.<tagKey>' in your Streams config.",
                )
            )
        return found

    def _leave(self, group_id: str, beat: StreamsHeartbeat, reply: Callable[[StreamsHeartbeatResult], None]) -> None:
        def change(draft: StreamsGroup) -> Finish:
            membership.leave(draft, beat)
            # The next target uses the current topics, even if no member has sent a heartbeat since the load.
            self._look(draft)
            how = "goes away" if beat.epoch == GOES_AWAY else "leaves"
            log.info("streams group %s: member %s %s", group_id, beat.member_id, how)
            return lambda _: StreamsHeartbeatResult(member_id=beat.member_id, epoch=beat.epoch)

        self.turns.submit(
            group_id, change, lambda outcome: reply(refused(outcome) if isinstance(outcome, KafkaError) else outcome)
        )

    # --- topics, epochs and targets -----------------------------------------------------------------------------------

    def _partitions(self, name: str) -> int:
        topic_id = self._ground.view.topic_id(name)
        return 0 if topic_id is None else self._ground.view.partition_count(topic_id)

    def _topics(self, topology: Topology) -> dict[Uuid, int]:
        """Return the existing topics that the topology needs, with their partition counts."""
        found: dict[Uuid, int] = {}
        for name in topology.required:
            topic_id = self._ground.view.topic_id(name)
            if topic_id is not None and (count := self._ground.view.partition_count(topic_id)):
                found[topic_id] = count
        return found

    def _look(self, draft: StreamsGroup) -> bool:
        """Record the current topics and settings; return whether they have changed since the last check."""
        topology, view = draft.topology, self._ground.view
        if topology is None:
            return False
        changed = False
        if draft.configured is None or draft.looked_at != view.version:
            draft.looked_at = view.version
            known = hash_of(self._topics(topology))
            changed = known != draft.topics_hash
            if changed or draft.configured is None:
                draft.topics_hash = known
                draft.configured = configure(topology, self._partitions)
        validated = topology.epoch if draft.configured.is_ready else -1
        settings = self._ground.settings.of_assignor(draft.group_id)
        changed |= validated != draft.validated_epoch or settings != draft.assignor_settings
        draft.validated_epoch, draft.assignor_settings = validated, settings
        return changed

    def _assign(self, draft: StreamsGroup) -> None:
        """Compute a new target unless it is delayed; the end of the delay then triggers it."""
        group_id = draft.group_id
        if draft.members and (group_id in self._waiting or not self._interval.is_over(draft)):
            return
        membership.assign(draft, self._ground.settings.standbys(group_id), self._ground.clock.wall_ms())
        self._ground.assigned()

    def _assign_now(self, group_id: str) -> None:
        """Compute the target that the assignment interval or the initial delay held back."""

        def change(draft: StreamsGroup) -> Finish:
            if self._look(draft):
                draft.epoch += 1
            return lambda _: None

        self.turns.submit_until_stored(group_id, change, partial(self._interval.again, group_id))

    def _wait_for_others(self, group_id: str) -> None:
        delay_ms = self._ground.settings.initial_delay_ms(group_id)
        if delay_ms and group_id not in self._waiting:
            self._waiting.add(group_id)
            self._ground.timers.schedule(_first(group_id), delay_ms, lambda: self._waited(group_id))

    def _waited(self, group_id: str) -> None:
        self._waiting.discard(group_id)
        self._assign_now(group_id)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _changed(self, before: StreamsGroup | None, after: StreamsGroup) -> None:
        group_id = after.group_id
        known = {} if before is None else before.members
        for member_id in known.keys() - after.members.keys():
            self._ground.timers.cancel(_session(group_id, member_id))
            self._ground.timers.cancel(_revocation(group_id, member_id))
        for member_id, member in after.members.items():
            was = known.get(member_id)
            if was is member:
                continue
            # A member that rejoined during the write that ended its session has no session timer either.
            if was is None or _session(group_id, member_id) not in self._ground.timers:
                self._watch_session(group_id, member_id)
            if member.state is not StreamsMemberState.UNREVOKED:
                self._ground.timers.cancel(_revocation(group_id, member_id))
            elif was is None or (was.epoch, was.revoking) != (member.epoch, member.revoking):
                self._watch_revocation(group_id, member)

    def _keep_alive(self, group_id: str, member_id: str) -> None:
        self._ground.timers.touch(_session(group_id, member_id), self._ground.settings.session_timeout_ms(group_id))

    def _watch_session(self, group_id: str, member_id: str) -> None:
        self._ground.timers.schedule(
            _session(group_id, member_id),
            self._ground.settings.session_timeout_ms(group_id),
            lambda: self._expire(group_id, member_id, "its session is over", lambda _: True),
        )

    def _watch_revocation(self, group_id: str, member: StreamsMember) -> None:
        revoking = member.revoking
        self._ground.timers.schedule(
            _revocation(group_id, member.member_id),
            member.said.rebalance_timeout_ms,
            lambda: self._expire(
                group_id,
                member.member_id,
                "it did not give up its revoked tasks in time",
                lambda now: now.state is StreamsMemberState.UNREVOKED and now.revoking == revoking,
            ),
        )

    def _expire(self, group_id: str, member_id: str, reason: str, still: Callable[[StreamsMember], bool]) -> None:
        """Remove a member if `still` holds for it."""

        def change(draft: StreamsGroup) -> Finish:
            member = draft.members.get(member_id)
            if member is not None and still(member):
                log.info("streams group %s: member %s is removed: %s", group_id, member_id, reason)
                membership.remove(draft, member_id)
                self._look(draft)
            return lambda _: None

        later = partial(self._ground.timers.schedule, _session(group_id, member_id), RETRY_MS)
        self.turns.submit_until_stored(group_id, change, later)

    # --- loading and ending groups ------------------------------------------------------------------------------------

    def install(self, group_id: str, stored: StoredStreamsGroup) -> None:
        """Install a loaded group and start a new session for each member; no coordinator received heartbeats during the
        load."""
        group = stored.group(group_id)
        if group is not None:
            self.turns.load(group)

    def become_classic(self, group_id: str, done: Callable[[KafkaError | None], None]) -> None:
        """Turn a group without members into a classic one: write tombstones for the group, keep its offsets.

        `done` gets KafkaError INCONSISTENT_GROUP_PROTOCOL if there are members, or the write's error.
        """

        def change(draft: StreamsGroup) -> Finish:
            if draft.members:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group_id} is a streams group, with members."
                )
            draft.successor = {}
            return lambda _: None

        def answered(outcome: Outcome) -> None:
            if outcome is None:
                self._stop_waiting(group_id)
            done(outcome)

        self.turns.submit(group_id, change, answered)

    def drop(self, group: StreamsGroup, error: ErrorCode) -> Records:
        """End a deleted group; return its tombstones."""
        self._give_up(group, error)
        return records.tombstones(group)

    def _give_up(self, group: StreamsGroup, error: ErrorCode) -> None:
        for member_id in group.members:
            self._ground.timers.cancel(_session(group.group_id, member_id))
            self._ground.timers.cancel(_revocation(group.group_id, member_id))
        self._stop_waiting(group.group_id)
        self.turns.forget(group.group_id, error)

    def _stop_waiting(self, group_id: str) -> None:
        self._waiting.discard(group_id)
        self._ground.timers.cancel(_first(group_id))
        self._interval.forget(group_id)

    def give_up_all(self, error: ErrorCode) -> None:
        """End all groups when the shard moves away or the broker stops."""
        for group in self.all():
            self._give_up(group, error)
        for group_id in list(self._waiting):
            self._stop_waiting(group_id)
        self.turns.forget_all(error)


def _missing(configured: ConfiguredTopology | None) -> tuple[MissingTopic, ...]:
    if configured is None:
        return ()
    return tuple(
        MissingTopic(topic.name, topic.partitions, topic.replication_factor or -1, dict(topic.configs))
        for topic in configured.missing
    )


def refused(error: KafkaError) -> StreamsHeartbeatResult:
    """Return the result for a refused heartbeat."""
    return StreamsHeartbeatResult(ErrorCode(error.code), error.message)


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams session", group_id, member_id


def _revocation(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "streams revocation", group_id, member_id


def _first(group_id: str) -> tuple[str, str]:
    return "streams first assignment", group_id
