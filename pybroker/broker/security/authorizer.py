"""Authorization: whether a principal may do an operation from a host. All control-plane handlers use it.

Native code has the current ACLs and evaluates them, for the data plane and for this module. There is no second
implementation in Python.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from pybroker.broker.log_limits import BY_CLIENT
from pybroker.broker.metadata.acl_nodes import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclNode,
)
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.requests.context import RequestContext
from pybroker.config import BrokerConfig
from pybroker.config.broker_security import super_users
from pybroker.errors import KafkaError
from pybroker.native import AclEntry, NativeAuthorizer
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

__all__ = [
    "CLUSTER_NAME",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "PatternType",
    "PermissionType",
    "ResourceType",
]

log = logging.getLogger(__name__)


class SecurityChange(msgspec.Struct, frozen=True):
    """Changed ACLs, users and delegation tokens."""

    acls_added: tuple[AclBinding, ...] = ()
    acls_removed: tuple[AclBinding, ...] = ()
    users: Mapping[str, Mapping[str, str]] = {}
    """Changed users: name → whole stored configuration."""
    tokens: Mapping[str, DelegationToken | None] = {}
    """By id; None: the token was removed."""
    full: bool = False
    """True if the change replaces the whole previous state."""


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


class NativeRules(Protocol):
    """The native access control (`NativeAuthorizer`)."""

    def publish(
        self,
        *,
        added: Sequence[AclEntry] = (),
        removed: Sequence[AclEntry] = (),
        super_users: Sequence[str] | None = None,
        allow_everyone_without_acls: bool | None = None,
    ) -> int:
        """Change the current ACLs."""
        ...

    def permits(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether the operation is permitted."""
        ...

    def permits_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether the operation is permitted on any resource of a type."""
        ...

    def permitted_operations(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """Return the permitted operations as a bit field."""
        ...


class Authorizer:
    """Authorizes with the current ACLs. Without `authorizer.class.name` it permits everything."""

    def __init__(self, native: NativeRules, config: BrokerConfig) -> None:
        self._native = native
        self.enabled = bool(config.get_str("authorizer.class.name"))
        self._known: set[AclBinding] = set()
        if self.enabled:
            native.publish(
                super_users=list(super_users(config.get_str("super.users"))),
                allow_everyone_without_acls=bool(config["allow.everyone.if.no.acl.found"]),
            )

    def update(self, change: SecurityChange) -> None:
        """Apply a change. It applies to requests that start later."""
        removed = self._known - set(change.acls_added) if change.full else set(change.acls_removed)
        added = set(change.acls_added) - self._known
        self._known = (self._known - removed) | added
        if self.enabled and (added or removed):
            self._native.publish(
                added=[binding.for_native() for binding in added],
                removed=[binding.for_native() for binding in removed],
            )

    def permits(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the principal of `context` may do `operation` on the resource called `name`."""
        if not self.enabled:
            return True
        permitted = self._native.permits(context.principal, context.client_host, operation, resource_type, name)
        kind = (operation, resource_type)
        if not permitted and kind not in context.refusals and log.isEnabledFor(logging.INFO):
            # Write one log line per request and kind of denial, because a request may name hundreds of thousands of
            # resources.
            context.refusals.add(kind)
            log.info(
                "denied request principal=%r host=%s operation=%s resource=%s:%r api_key=%d",
                context.principal,
                context.client_host,
                operation.name,
                resource_type.name,
                name,
                context.api_key,
                extra=BY_CLIENT,
            )
        return permitted

    def permits_principal_on_cluster(self, context: RequestContext, principal: str, operation: AclOperation) -> bool:
        """Like `permits_on_cluster`, for `principal` instead of the connection's own principal: for example, before the
        connection is authenticated."""
        return self.permits(
            msgspec.structs.replace(context, principal=principal), operation, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def permits_on_cluster(self, context: RequestContext, operation: AclOperation) -> bool:
        """Like `permits`, for the cluster."""
        return self.permits(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def lists(self, context: RequestContext, resource_type: ResourceType, name: str) -> bool:
        """Return whether a listing shows a resource, which needs DESCRIBE. A denial is not logged."""
        return not self.enabled or self._native.permits(
            context.principal, context.client_host, AclOperation.DESCRIBE, resource_type, name
        )

    def permits_any(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the operation is permitted on any resource of the type (KIP-679)."""
        return not self.enabled or self._native.permits_any(
            context.principal, context.client_host, operation, resource_type
        )

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return all operations permitted on a resource, as Kafka's bit field (KIP-430)."""
        return self._native.permitted_operations(context.principal, context.client_host, resource_type, name)

    def require_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED if the operation is not permitted."""
        if not self.permits_on_cluster(context, operation):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")

    def require_group(self, context: RequestContext, operation: AclOperation, group_id: str) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED if the operation is not permitted."""
        if not self.permits(context, operation, ResourceType.GROUP, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")

    def require_topic(self, context: RequestContext, operation: AclOperation, name: str) -> None:
        """Raise TOPIC_AUTHORIZATION_FAILED if the operation is not permitted."""
        if not self.permits(context, operation, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")

    def permits_topic(self, context: RequestContext, operation: AclOperation, name: str) -> bool:
        """Like `permits`, for a topic."""
        return self.permits(context, operation, ResourceType.TOPIC, name)

    def may_on_cluster(self, context: RequestContext, operation: AclOperation) -> bool:
        """Like `permits_on_cluster`, but do not log a denial, because the caller then checks the resource itself."""
        return not self.enabled or self._native.permits(
            context.principal, context.client_host, operation, ResourceType.CLUSTER, CLUSTER_NAME
        )


def cluster_operations(authorizer: Authorizer, context: RequestContext) -> int:
    """Return the cluster operations for Metadata and DescribeCluster (KIP-430); 0 without DESCRIBE permission."""
    if not authorizer.may_on_cluster(context, AclOperation.DESCRIBE):
        return 0
    return authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


TOPIC, GROUP = 2, 32
"""Kafka's codes of config resource types, which differ from those of ACLs."""


def require_configs(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, resource_type: int, name: str
) -> None:
    """Raise an error if the operation is not permitted: TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED, by the type of
    the resource.
    """
    if resource_type == TOPIC:
        authorizer.require_topic(context, operation, name)
    elif resource_type == GROUP:
        authorizer.require_group(context, operation, name)
    else:
        authorizer.require_cluster(context, operation)


class PendingAcls:
    """The ACLs that the controller has decided in one term; implements `controller.authorization.AclEvaluator`.

    They are newer than the ACLs of the controller's own broker, because this broker applies decisions later, like any
    other broker. The same native code evaluates both.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._native = NativeAuthorizer()
        self._authorizer = Authorizer(self._native, config)

    def follow(self, before: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a decision."""
        found = security_change(before, change)
        if found is not None:
            self._authorizer.update(found)

    def permits(self, caller: Caller, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the decided ACLs permit the operation."""
        return self._native.permits(caller.principal, caller.host, operation, resource_type, name)
