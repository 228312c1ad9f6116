"""What a change of the cluster means for those who guard this broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pybroker.broker.metadata.acls import AclBinding, AclNode
from pybroker.broker.metadata.delegation_tokens import DelegationToken
from pybroker.broker.metadata.image import ClusterImage, ImageDelta


class SecurityChange(msgspec.Struct, frozen=True):
    """Access control entries and users that changed."""

    acls_added: tuple[AclBinding, ...] = ()
    acls_removed: tuple[AclBinding, ...] = ()
    users: Mapping[str, Mapping[str, str]] = {}
    """All that is stored for each user that changed."""
    tokens: Mapping[str, DelegationToken | None] = {}
    """None: it is gone."""
    full: bool = False
    """This is all there is; what was known before is void."""


def security_change(before: ClusterImage, change: ImageDelta | ClusterImage) -> SecurityChange | None:
    """What changes for the guards; None: nothing."""
    users = {name: user.config for name, user in change.users.items()}
    if isinstance(change, ClusterImage):
        return SecurityChange(tuple(_bindings(change.acls.values())), users=users, tokens=change.tokens, full=True)
    if not change.acls and not users and not change.tokens:
        return None
    old = dict.fromkeys(_bindings(before.acls[pattern] for pattern in change.acls if pattern in before.acls))
    new = dict.fromkeys(_bindings(change.acls.values()))
    return SecurityChange(
        acls_added=tuple(binding for binding in new if binding not in old),
        acls_removed=tuple(binding for binding in old if binding not in new),
        users=users,
        tokens=change.tokens,
    )


def _bindings(nodes: Iterable[AclNode]) -> list[AclBinding]:
    return [binding for node in nodes for binding in node.bindings]
