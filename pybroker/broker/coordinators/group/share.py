"""Share groups (KIP-932) in the shards of the group coordinator: membership, offsets and deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.reply import Reply
from pybroker.broker.coordinators.shards.ports import Topics
from pybroker.broker.coordinators.shards.said import said_bytes
from pybroker.broker.coordinators.shards.shard import ShardState
from pybroker.broker.coordinators.share.group import TopicState
from pybroker.broker.coordinators.share_state.state import NO_OFFSET, Key, ShareState
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.group.shard import GroupShard
    from pybroker.broker.coordinators.share.group import ShareGroup
    from pybroker.broker.coordinators.share.groups import Finish, States
    from pybroker.broker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult


class ShareOffset(msgspec.Struct, frozen=True):
    """A group's position in a partition. −1: not known."""

    start_offset: int
    leader_epoch: int
    complete_count: int


NOWHERE = ShareOffset(NO_OFFSET, 0, -1)


class ShareCoordination:
    """Requests about share groups. All raise KafkaError GROUP_ID_NOT_FOUND, or if this broker is not the
    coordinator."""

    def __init__(
        self, groups: GroupCoordinator, topics: Topics, states: States, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._states = states
        self._loop = loop

    # --- membership ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self, group_id: str, beat: ShareHeartbeat
    ) -> ShareHeartbeatResult | asyncio.Future[ShareHeartbeatResult]:
        """Handle a valid ShareGroupHeartbeat: return the result, or a future for it while changes are written."""
        shard = self._groups.shard(group_id)
        if group_id not in shard.shares and (beat.epoch != 0 or shard.holds_other_than_share(group_id)):
            what = "is not a share group" if shard.holds_other_than_share(group_id) else "not found"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        if beat.topics is not None or beat.rack_id is not None:
            self._groups.require_room(said_bytes(beat.said), shard.shares.turns.said.of(group_id, beat.member_id))
        reply: Reply[ShareHeartbeatResult] = Reply()
        shard.shares.heartbeat(group_id, beat, reply)
        return reply.outcome(self._loop)

    def describe(self, group_id: str) -> ShareGroup:
        """Return a share group; callers must not change it."""
        return self._find(group_id)[1]

    def list(self) -> list[ShareGroup]:
        """Return all share groups of this broker's loaded shards. Callers must not change them."""
        return [g for s in self._groups.shards if s.state is ShardState.ACTIVE for g in s.shares.all()]

    def _find(self, group_id: str) -> tuple[GroupShard, ShareGroup]:
        shard = self._groups.shard(group_id, empty_allowed=True)
        group = shard.shares.get(group_id)
        if group is None:
            what = "is not a share group" if shard.holds_other_than_share(group_id) else "not found"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return shard, group

    def holds(self, group_id: str) -> bool:
        """Return whether a share group has this id."""
        return self._groups.shard(group_id, empty_allowed=True).shares.get(group_id) is not None

    # --- offsets ------------------------------------------------------------------------------------------------------

    def partitions_of(self, group_id: str) -> dict[Uuid, TopicState]:
        """Return the partitions for which the group has or initializes share state.

        Topics have their current name, which an undelete may have changed.
        """
        group = self._find(group_id)[1]
        return {
            topic_id: TopicState(self._topics.topic_name(topic_id) or topic.name, group.known_partitions(topic_id))
            for topic_id, topic in {**group.initializing, **group.initialized}.items()
        }

    async def offset(self, group_id: str, topic_id: Uuid, partition: int) -> ShareOffset:
        """Return the group's position in a partition."""
        state: ShareState | None = await self._states.summary(Key(group_id, topic_id, partition))
        if state is None:
            return NOWHERE
        return ShareOffset(state.start_offset, state.leader_epoch, state.complete_count)

    async def alter(self, group_id: str, wanted: Mapping[Uuid, Mapping[int, int]]) -> dict[tuple[Uuid, int], ErrorCode]:
        """Set the start offsets of a group without members; return one code per partition. Raise KafkaError
        NON_EMPTY_GROUP."""
        shard = self._groups.shard(group_id, empty_allowed=True)
        if not self.holds(group_id) and shard.holds_other_than_share(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        states = {
            topic_id: TopicState(self._topics.topic_name(topic_id) or "", frozenset(offsets))
            for topic_id, offsets in wanted.items()
        }

        def change(draft: ShareGroup) -> Finish:
            draft.require_empty()
            if not draft.deleting.keys().isdisjoint(states):
                # The deletion in progress would remove the new offsets.
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "States of the topic are being deleted.")
            draft.epoch += 1
            draft.made_anew(states)
            return lambda now: now.epoch

        epoch = await self._submitted(shard, group_id, change)
        keys = [(topic_id, index, to) for topic_id, offsets in wanted.items() for index, to in offsets.items()]
        codes = await asyncio.gather(
            *(_code(self._states.initialize(Key(group_id, topic_id, index), epoch, to)) for topic_id, index, to in keys)
        )
        return {(topic_id, index): code for (topic_id, index, _), code in zip(keys, codes, strict=True)}

    async def delete_offsets(self, group_id: str, topics: Sequence[Uuid]) -> dict[Uuid, ErrorCode]:
        """Delete the share state of a group without members for these topics; return one code per topic.

        Raise KafkaError NON_EMPTY_GROUP.
        """
        shard, group = self._find(group_id)
        group.require_empty()
        known = self.partitions_of(group_id).keys()
        return {
            topic_id: await _code(shard.shares.delete_states(group_id, [topic_id]))
            if topic_id in known
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic_id in topics
        }

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Handle a DeleteGroups: return NONE once the tombstones of the group and its share state are durable.

        Raise KafkaError NON_EMPTY_GROUP.
        """
        shard, group = self._find(group_id)
        group.require_empty()
        await shard.shares.delete_states(group_id, self.partitions_of(group_id))
        shard, group = self._find(group_id)
        group.require_empty()
        done: asyncio.Future[ErrorCode] = self._loop.create_future()
        records = shard.shares.drop(group)
        shard.log.write(list(records.items()), lambda error, _: None if done.done() else done.set_result(error))
        return await done

    async def _submitted(self, shard: GroupShard, group_id: str, change: Callable[[ShareGroup], Finish]) -> int:
        outcome = await shard.shares.submit(group_id, change)
        if isinstance(outcome, KafkaError):
            raise outcome
        return int(outcome or 0)


async def _code(work: object) -> ErrorCode:
    try:
        await work  # type: ignore[misc]
    except KafkaError as problem:
        return ErrorCode(problem.code)
    return ErrorCode.NONE
