"""The security delta: the parts of a metadata change that affect authorization and credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pybroker.broker.metadata.acl_nodes import AclBinding, AclNode
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.token_nodes import DelegationToken


class SecurityChange(msgspec.Struct, frozen=True):
    """Changed ACLs, users and delegation tokens."""

    acls_added: tuple[AclBinding, ...] = ()
    acls_removed: tuple[AclBinding, ...] = ()
    users: Mapping[str, Mapping[str, str]] = {}
    """Changed users: name → whole stored configuration."""
    tokens: Mapping[str, DelegationToken | None] = {}
    """By id; None: the token was removed."""
    full: bool = False
    """True if the change replaces everything known before."""


def security_change(before: ClusterImage, change: ImageDelta | ClusterImage) -> SecurityChange | None:
    """Return the security delta of a change; None if it has none."""
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
