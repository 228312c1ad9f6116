"""The behaviour of share groups (KIP-932): their heartbeats, target assignments and timeouts.

Pure functions in `membership` make the decisions.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.broker.coordinators.group_base.epoch_group import LEAVES
from pybroker.broker.coordinators.group_base.epoch_kind import EpochGroupManager, EpochKind
from pybroker.broker.coordinators.group_base.topics_hash import hash_of
from pybroker.broker.coordinators.share import membership, records
from pybroker.broker.coordinators.share.group import ShareGroup, ShareGroupMember
from pybroker.broker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult
from pybroker.broker.coordinators.share.share_group_states import ShareGroupDependencies, ShareGroupStates
from pybroker.native import Uuid


class ShareKind(EpochKind[ShareGroup, ShareHeartbeat, ShareHeartbeatResult]):
    group_type = ShareGroup
    changes = staticmethod(records.changes)
    tombstones = staticmethod(records.tombstones)
    result_type = ShareHeartbeatResult

    states: ShareGroupStates

    def __init__(self, dependencies: ShareGroupDependencies) -> None:
        self._dependencies = dependencies
        self._clock = dependencies.clock
        self._view = dependencies.view
        self._settings = dependencies.settings

    def bind(self, groups: EpochGroupManager) -> None:
        super().bind(groups)
        self.states = ShareGroupStates(self._dependencies, groups)

    # --- members ------------------------------------------------------------------------------------------------------

    def member_metadata(self, group: ShareGroup) -> dict[str, tuple[object, ...]]:
        return {
            member_id: (member.client_id, member.client_host, member.rack_id, member.topics)
            for member_id, member in group.members.items()
        }

    def answer(self, group: ShareGroup, beat: ShareHeartbeat) -> ShareHeartbeatResult | None:
        member = group.members[beat.member_id]
        if beat.topics not in (None, member.topics) or beat.rack_id not in (None, member.rack_id):
            return None
        return self._result(group.group_id, member, with_assignment=beat.topics is not None)

    def join(self, draft: ShareGroup, beat: ShareHeartbeat) -> Callable[[ShareGroup], ShareHeartbeatResult]:
        epoch = draft.epoch
        before = membership.enter(draft, beat, self._settings.max_size)
        self._look(draft, raised=draft.epoch > epoch)

        def finish(draft: ShareGroup) -> ShareHeartbeatResult:
            moved = membership.progress(draft, beat.member_id, self._topics(draft))
            with_assignment = beat.topics is not None or before is None or moved.assigned != before.assigned
            return self._result(draft.group_id, moved, with_assignment=with_assignment)

        return finish

    def leave(self, draft: ShareGroup, beat: ShareHeartbeat) -> ShareHeartbeatResult:
        self.remove(draft, beat.member_id)
        return ShareHeartbeatResult(member_id=beat.member_id, epoch=LEAVES)

    def remove(self, draft: ShareGroup, member_id: str) -> None:
        membership.remove(draft, member_id)
        self._look(draft, raised=True)

    def _result(self, group_id: str, member: ShareGroupMember, *, with_assignment: bool) -> ShareHeartbeatResult:
        return ShareHeartbeatResult(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=self._settings.heartbeat_interval_ms(group_id),
            assigned=member.assigned if with_assignment else None,
        )

    def session_timeout_ms(self, group_id: str, member: ShareGroupMember) -> int:
        return self._settings.session_timeout_ms(group_id)

    # --- epochs and targets -------------------------------------------------------------------------------------------

    def _topics(self, group: ShareGroup) -> dict[Uuid, tuple[str, int]]:
        """Return the existing topics to which any member subscribes: name and partition count."""
        view = self._view
        found: dict[Uuid, tuple[str, int]] = {}
        for name in group.subscribed:
            topic_id = view.topic_id(name)
            if topic_id is not None and (count := view.partition_count(topic_id)):
                found[topic_id] = name, count
        return found

    def _look(self, draft: ShareGroup, *, raised: bool) -> None:
        """Record the members' topics, and start to initialize the share states of new partitions.

        If the topics have changed, raise the group epoch, unless the caller has already done so (`raised`).
        """
        if draft.looked_at == self._view.version and not raised:
            return
        draft.looked_at = self._view.version
        topics = self._topics(draft)
        known = hash_of({topic_id: count for topic_id, (_, count) in topics.items()})
        if known != draft.topics_hash:
            draft.topics_hash = known
            if not raised:
                draft.epoch += 1
        draft.begin(draft.missing(topics))

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._settings.assignment_interval_ms(group_id)

    def before_target(self, draft: ShareGroup) -> None:
        self._look(draft, raised=draft.epoch > draft.target_epoch)

    def assign(self, draft: ShareGroup) -> None:
        membership.assign(draft, self._topics(draft), self._clock.wall_ms())

    # --- events -------------------------------------------------------------------------------------------------------

    def changed(self, group: ShareGroup) -> None:
        self.states.work(group.group_id)

    def ended(self, group_id: str) -> None:
        self.states.stop(group_id)
