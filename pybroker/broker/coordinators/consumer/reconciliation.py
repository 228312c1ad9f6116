"""One step of one member towards the target: gives back first, gets afterwards. A pure function (KIP-848).

    STABLE      ──target is newer,
                  or gives less───► something to give back ──► UNREVOKED   in its old epoch, without what it gives back
                                    else ───────────────────► target epoch, with what nobody else has
    UNREVOKED   ──says that it gave everything back──────────► as from STABLE
    UNRELEASED  ──each heartbeat─────────────────────────────► as from STABLE: others may have given back meanwhile
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.broker.coordinators.consumer.model import Member, MemberState, Partition


def reconcile(
    member: Member,
    target_epoch: int,
    target: frozenset[Partition],
    may_give: Callable[[Partition], bool],
    owned: frozenset[Partition] | None,
) -> Member:
    """The member after its heartbeat.

    may_give: whether nobody else may be reading a partition. owned: what the member says it reads; None: it does not
    say.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch and member.assigned.keys() <= target:
        return member
    if member.state is MemberState.UNREVOKED:
        if owned is None or not owned.isdisjoint(member.revoking):
            return member
        # It has obeyed: what it says in its old epoch from now on comes from before.
        member = msgspec.structs.replace(member.moved_to(min(member.epoch + 1, target_epoch)), revoking={})
    kept = {partition: since for partition, since in member.assigned.items() if partition in target}
    leaving = {partition: since for partition, since in member.assigned.items() if partition not in target}
    if leaving and (owned is None or not owned.isdisjoint(leaving)):
        return msgspec.structs.replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=leaving)
    missing = target - kept.keys()
    free = [partition for partition in missing if may_give(partition)]
    kept.update(dict.fromkeys(free, target_epoch))
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
    if member.epoch == target_epoch and state is member.state and not free and not leaving:
        return member
    return msgspec.structs.replace(member.moved_to(target_epoch), state=state, assigned=kept, revoking={})
