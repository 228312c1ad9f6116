"""A member's next step towards its target assignment. The member revokes partitions before it gets new partitions. Pure
(KIP-848).

STABLE      ──target changed──► partitions to revoke ──► UNREVOKED     in its old epoch, without these partitions
                                else ──────────────────► target epoch, with the partitions that no other member owns
                                                         (UNRELEASED while another member owns some of the target)
UNREVOKED   ──confirms the revocation──────────────────► as from STABLE
UNRELEASED  ──each heartbeat───────────────────────────► as from STABLE: other members may have released partitions
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.broker.coordinators.consumer.model import ConsumerMember, ConsumerMemberState, Partition


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: frozenset[Partition],
    may_give: Callable[[Partition], bool],
    owned: frozenset[Partition] | None,
) -> ConsumerMember:
    """Return the state of the member after its heartbeat.

    may_give: returns whether no other member may be reading a partition. owned: partitions that the member reports as
    owned; None if the heartbeat does not report them.
    """
    if member.state is ConsumerMemberState.STABLE and member.epoch == target_epoch and member.assigned.keys() <= target:
        return member
    stays_in = member.epoch
    if member.state is ConsumerMemberState.UNREVOKED:
        if owned is None or not owned.isdisjoint(member.revoking):
            return member
        # The member has revoked the partitions and moves to a new epoch. Requests in the old epoch are outdated.
        stays_in = min(member.epoch + 1, target_epoch)
    kept = {partition: since for partition, since in member.assigned.items() if partition in target}
    leaving = {partition: since for partition, since in member.assigned.items() if partition not in target}
    if leaving and (owned is None or not owned.isdisjoint(leaving)):
        return msgspec.structs.replace(
            member.moved_to(stays_in), state=ConsumerMemberState.UNREVOKED, assigned=kept, revoking=leaving
        )
    missing = target - kept.keys()
    free = [partition for partition in missing if may_give(partition)]
    kept.update(dict.fromkeys(free, target_epoch))
    state = ConsumerMemberState.STABLE if len(free) == len(missing) else ConsumerMemberState.UNRELEASED
    moved = msgspec.structs.replace(member.moved_to(target_epoch), state=state, assigned=kept, revoking={})
    return member if moved == member else moved
