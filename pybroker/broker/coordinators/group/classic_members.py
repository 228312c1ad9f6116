"""Classic-protocol members of consumer groups, while an application moves to the new protocol member by member
(KIP-848).

A classic member sees its member epoch as the generation, and the coordinator as the group's leader. A JoinGroup moves
the member one step towards its target assignment. A SyncGroup returns the assignment. A Heartbeat tells the member to
rejoin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from pybroker.broker.coordinators.consumer import membership
from pybroker.broker.coordinators.consumer.consumer_kind import ConsumerKind
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    ClassicSide,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    Partition,
)
from pybroker.broker.coordinators.consumer.settings import ConsumerSettings
from pybroker.broker.coordinators.group.classic_group import JoinReply, JoinResult, SyncResult
from pybroker.broker.coordinators.group.embedded import EmbeddedSubscription, read_subscription, write_assignment
from pybroker.broker.coordinators.group.subscription import CONSUMER_PROTOCOL_TYPE
from pybroker.broker.coordinators.group_base.epoch_groups import EpochGroups
from pybroker.broker.coordinators.group_base.epoch_kind import Finish, Outcome
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.requests import JoinRequest, LeavingMember, SyncRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.errors import KafkaError
from pybroker.native import CodecError, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class ClassicMembers:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup for classic members of the consumer groups of one shard."""

    def __init__(
        self, groups: EpochGroups, kind: ConsumerKind, settings: ConsumerSettings, timers: TimerWheel, topics: Topics
    ) -> None:
        self._groups = groups
        self._kind = kind
        self._settings = settings
        self._timers = timers
        self._topics = topics

    # --- JoinGroup ----------------------------------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """Handle a JoinGroup. Reply once the member's new state is durable, without waiting for other members."""
        member_id = request.member_id
        if not member_id:
            group = self._groups.registry.get_as(group_id, ConsumerGroup)
            if group is not None and not _speaks(group, request):
                # Refuse the request before assigning a member id. `change` checks requests that have a member id.
                reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
                return
            member_id = str(Uuid.random())
            if request.requires_known_member_id and request.instance_id is None:
                reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return

        def change(draft: ConsumerGroup) -> Finish:
            epoch = draft.epoch
            asked = msgspec.structs.replace(request, member_id=member_id)
            owned = enter(draft, asked, self._topics, self._settings.max_size)
            self._kind.look_again(draft, epoch, lambda name: True)
            return lambda done: (done, self._kind.progress(done, member_id, owned))

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KafkaError):
                reply(JoinResult(ErrorCode(outcome.code), request.member_id))
                return
            group: ConsumerGroup = outcome[0]
            member: ConsumerMember = outcome[1]
            self._groups.keep_alive(group, member)
            self._timers.cancel(_rejoin(group_id, member_id))
            self._expect(_sync(group_id, member_id), group_id, member, "no SyncGroup from it")
            reply(
                JoinResult(
                    ErrorCode.NONE, member_id, member.epoch, CONSUMER_PROTOCOL_TYPE, request.protocols[0][0], leader=""
                )
            )

        self._groups.submit(group_id, change, answered, of=GroupKind.CONSUMER)

    def _expect(self, key: tuple[str, str, str], group_id: str, member: ConsumerMember, reason: str) -> None:
        """Remove the member unless it sends its next request within its rebalance timeout."""
        self._timers.schedule(
            key,
            member.subscription.rebalance_timeout_ms,
            lambda: self._groups.expire(
                group_id, member.member_id, reason, lambda now: now.is_classic and now.epoch == member.epoch
            ),
        )

    # --- SyncGroup, Heartbeat, LeaveGroup -----------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        """Return the member's assignment. Raise KafkaError if the member has to rejoin or is unknown."""
        member = self._member(group, request.member_id, request.instance_id, request.generation)
        side = member.subscription.classic
        if side is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        protocol = side.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.target_epoch > member.epoch and member.state is not ConsumerMemberState.UNREVOKED:
            self._rejoins(group, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._timers.cancel(_sync(group.group_id, member.member_id))
        self._groups.keep_alive(group, member)
        assignment = write_assignment(member.assigned, side.protocols[0][1], self._topics)
        return SyncResult(ErrorCode.NONE, assignment, CONSUMER_PROTOCOL_TYPE, protocol)

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Extend the member's session; return REBALANCE_IN_PROGRESS if rejoining would advance the member.

        Raise KafkaError if the member is unknown.
        """
        member = self._member(group, member_id, instance_id, generation)
        self._groups.keep_alive(group, member)
        # While `AssignmentInterval` delays the next target assignment, the member would gain nothing by rejoining.
        behind = member.epoch < group.target_epoch or member.state is ConsumerMemberState.UNREVOKED
        if behind or (member.state is ConsumerMemberState.UNRELEASED and not group.waits_in_vain(member)):
            self._rejoins(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _rejoins(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        key = _rejoin(group.group_id, member.member_id)
        if key not in self._timers:
            self._expect(key, group.group_id, member, "it did not join again in time")

    def leave(self, group_id: str, leaving: Iterable[LeavingMember], reply: Callable[[list[ErrorCode]], None]) -> None:
        """Remove members and reply with one error code per member, in request order."""

        def change(draft: ConsumerGroup) -> Finish:
            answers = [_leave_one(draft, member) for member in leaving]
            self._kind.note_topics(draft)
            return lambda _: answers

        def answered(outcome: Outcome) -> None:
            reply([ErrorCode(outcome.code) for _ in leaving] if isinstance(outcome, KafkaError) else outcome)

        leaving = list(leaving)
        self._groups.submit(group_id, change, answered, of=GroupKind.CONSUMER)

    def _member(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        member = group.member(member_id) if instance_id is None else group.instance(instance_id, member_id)
        if generation != member.epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member


def _leave_one(draft: ConsumerGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        if leaving.instance_id is None or leaving.instance_id not in draft.instances:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = draft.instances[leaving.instance_id]
    try:
        instance_id = leaving.instance_id
        member = draft.member(member_id) if instance_id is None else draft.instance(instance_id, member_id)
    except KafkaError as error:
        return ErrorCode(error.code)
    # Only an administrator may remove a member of the consumer protocol, by a request with the instance id alone
    # (KIP-848).
    if leaving.member_id and not member.is_classic:
        return ErrorCode.UNKNOWN_MEMBER_ID
    log.info("group %s: member %s leaves: %s", draft.group_id, member_id, leaving.reason)
    membership.remove(draft, member_id)
    return ErrorCode.NONE


def enter(draft: ConsumerGroup, request: JoinRequest, topics: Topics, size_max: int) -> frozenset[Partition]:
    """Add or update the member of a JoinGroup. Return the partitions that the member still owns.

    If this raises KafkaError, it has changed nothing.
    """
    membership.check_room(draft, request.member_id, request.instance_id, size_max)
    if not _speaks(draft, request):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        embedded: EmbeddedSubscription = read_subscription(request.protocols[0][1], topics)
    except CodecError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Cannot decode the subscription: {error}") from None
    subscription = ConsumerSubscription(
        request.client_id,
        request.client_host,
        request.instance_id,
        embedded.rack_id,
        embedded.topics,
        None,
        request.rebalance_timeout_ms,
        None,
        ClassicSide(request.session_timeout_ms, request.protocols),
    )
    before = _known(draft, request)
    now = (
        ConsumerMember(request.member_id, subscription)
        if before is None
        else msgspec.structs.replace(membership.inherited(before, request.member_id), subscription=subscription)
    )
    membership.take_in(draft, before, now)
    # Partitions of an earlier generation may belong to other members by now.
    return embedded.owned if before is not None and embedded.generation in (-1, before.epoch) else frozenset()


def _known(draft: ConsumerGroup, request: JoinRequest) -> ConsumerMember | None:
    if request.instance_id is None or request.instance_id not in draft.instances:
        return draft.members.get(request.member_id)
    known = draft.members[draft.instances[request.instance_id]]
    if known.member_id != request.member_id and request.member_id in draft.members:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return known


def _speaks(draft: ConsumerGroup, request: JoinRequest) -> bool:
    """Return whether the request uses protocol type "consumer" and shares an assignor with all classic members."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    others = [side for m, side in draft.classic_sides().items() if m != request.member_id]
    return not others or any(all(name in dict(side.protocols) for side in others) for name, _ in request.protocols)


def _sync(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "consumer sync", group_id, member_id


def _rejoin(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "consumer join", group_id, member_id
