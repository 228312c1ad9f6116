"""A member's next step towards its target assignment. The member revokes tasks before it gets new tasks. Pure
(KIP-1071).

    STABLE      ──new target──► tasks to revoke ──► UNREVOKED     in its old epoch, without these tasks
                                else ─────────────► target epoch, with the tasks that no other member owns
    UNREVOKED   ──confirms the revocation─────────► as from STABLE
    UNRELEASED  ──each heartbeat──────────────────► as from STABLE: other members may have released tasks

A task is active on at most one member. A process has a task at most once, in any role, because its members share a
state directory. A member can change the role of its own task. An active task becomes a standby at once. A standby
becomes active only when no other member runs the task.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from pybroker.broker.coordinators.streams.model import (
    NOTHING,
    HeldTasks,
    StreamsMember,
    StreamsMemberState,
    Task,
    Tasks,
)


class Holders(Protocol):
    """The tasks that other members may be running."""

    def runs(self, task: Task) -> bool:
        """Return whether the task is active on another member."""
        ...

    def runs_beside(self, task: Task) -> bool:
        """Return whether the task is active on another member of the same process."""
        ...

    def copies_beside(self, task: Task) -> bool:
        """Return whether another member of the same process has the task as standby or warm-up."""
        ...


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, holders: Holders, owned: Tasks | None
) -> StreamsMember:
    """Return the state of the member after its heartbeat. owned: tasks that the member reports; None if the heartbeat
    does not report them.
    """
    if member.is_settled(target_epoch):
        return member

    def has_not_released(revoking: HeldTasks) -> bool:
        return owned is None or owned.shares_any(revoking)

    stays_in = member.epoch
    if member.state is StreamsMemberState.UNREVOKED:
        if has_not_released(member.revoking):
            return member
        # The member has revoked the tasks and moves to a new epoch. Requests in the old epoch are outdated.
        stays_in = min(member.epoch + 1, target_epoch)

    def is_free(task: Task) -> bool:
        return not holders.runs_beside(task) and not holders.copies_beside(task)

    had = member.assigned
    kept = {task: since for task, since in had.active.items() if task in target.active}
    standby, warmup = had.standby & target.standby, had.warmup & target.warmup
    # A standby or warm-up that will become active keeps its role until the task is free.
    promoted_standby, promoted_warmup = had.standby & target.active, had.warmup & target.active
    new_standby = frozenset(task for task in target.standby - had.standby if is_free(task))
    new_warmup = frozenset(task for task in target.warmup - had.warmup if is_free(task))
    changed_standby = new_standby & (had.active.keys() | had.warmup)
    changed_warmup = new_warmup & had.standby
    revoking = HeldTasks(
        {task: since for task, since in had.active.items() if task not in target.active},
        had.standby - standby - promoted_standby - changed_warmup,
        had.warmup - warmup - promoted_warmup - changed_standby,
    )
    if revoking and has_not_released(revoking):
        return msgspec.structs.replace(
            member.moved_to(stays_in),
            state=StreamsMemberState.UNREVOKED,
            assigned=HeldTasks(
                kept, standby | changed_standby | promoted_standby, warmup | changed_warmup | promoted_warmup
            ),
            revoking=revoking,
        )
    active = {
        task for task in target.active - kept.keys() if not holders.runs(task) and not holders.copies_beside(task)
    }
    kept.update(dict.fromkeys(active, target_epoch))
    assigned = HeldTasks(
        kept,
        standby | new_standby | (promoted_standby - active),
        warmup | new_warmup | (promoted_warmup - active),
    )
    state = StreamsMemberState.STABLE if assigned.tasks == target else StreamsMemberState.UNRELEASED
    moved = msgspec.structs.replace(member.moved_to(target_epoch), state=state, assigned=assigned, revoking=NOTHING)
    return member if moved == member else moved
