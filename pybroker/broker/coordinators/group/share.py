"""Share groups (KIP-932) in the shards of the group coordinator: membership, offsets and deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.share.group import ShareGroup, TopicState
from pybroker.broker.coordinators.share_state.state import NO_OFFSET, Key, ShareState
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.group.shard import GroupShard
    from pybroker.broker.coordinators.group_base.epoch_kind import Finish
    from pybroker.broker.coordinators.share.share_group_states import States


class ShareOffset(msgspec.Struct, frozen=True):
    """A share group's position in a partition. −1: not known."""

    start_offset: int
    leader_epoch: int
    complete_count: int


NOWHERE = ShareOffset(NO_OFFSET, 0, -1)


class ShareCoordination:
    """Requests about share groups.

    All methods raise KafkaError GROUP_ID_NOT_FOUND for other groups, and NOT_COORDINATOR if this broker does not
    coordinate the group.
    """

    def __init__(
        self, groups: GroupCoordinator, topics: Topics, states: States, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._states = states
        self._loop = loop

    def _find(self, group_id: str) -> tuple[GroupShard, ShareGroup]:
        shard = self._groups.shard(group_id, empty_allowed=True)
        return shard, shard.groups.find(group_id, ShareGroup)

    def holds(self, group_id: str) -> bool:
        """Return whether a share group has this id."""
        return isinstance(self._groups.shard(group_id, empty_allowed=True).groups.get(group_id), ShareGroup)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def partitions_of(self, group_id: str) -> dict[Uuid, TopicState]:
        """Return the partitions for which the group has share state, or is initializing share state.

        Topics have their current name, because an undelete may have changed it.
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
        """Set the start offsets of a group without members. Return one error code per partition. Raise KafkaError
        NON_EMPTY_GROUP."""
        shard = self._groups.shard(group_id, empty_allowed=True)
        shard.groups.require(group_id, GroupKind.SHARE)
        states = {
            topic_id: TopicState(self._topics.topic_name(topic_id) or "", frozenset(offsets))
            for topic_id, offsets in wanted.items()
        }

        def change(draft: ShareGroup) -> Finish:
            draft.require_empty()
            if not draft.deleting.keys().isdisjoint(states):
                # A deletion of the share state is in progress, and would delete the new offsets too.
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
            topic_id: await _code(shard.share_states.delete_states(group_id, [topic_id]))
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
        await shard.share_states.delete_states(group_id, self.partitions_of(group_id))
        shard, group = self._find(group_id)
        group.require_empty()
        done: asyncio.Future[ErrorCode] = self._loop.create_future()
        shard.drop_group(group, lambda error: None if done.done() else done.set_result(error))
        return await done

    async def _submitted(self, shard: GroupShard, group_id: str, change: Callable[[ShareGroup], Finish]) -> int:
        outcome = await shard.share_states.submit(group_id, change)
        if isinstance(outcome, KafkaError):
            raise outcome
        return int(outcome or 0)


async def _code(work: object) -> ErrorCode:
    try:
        await work  # type: ignore[misc]
    except KafkaError as problem:
        return ErrorCode(problem.code)
    return ErrorCode.NONE
