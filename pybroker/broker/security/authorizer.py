"""May this principal do that, from this host? Asked by every handler of the control plane.

The entries in force lie in native code, where the data plane asks the same question; here is no second evaluation.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pybroker.broker.log_limits import BY_CLIENT
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.acls import CLUSTER_NAME, AclBinding, AclOperation, ResourceType
from pybroker.broker.security.change import SecurityChange
from pybroker.config import BrokerConfig
from pybroker.config.broker_security import super_users
from pybroker.errors import KafkaError
from pybroker.native import AclEntry
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class NativeRules(Protocol):
    """What native code knows of access control (`NativeAuthorizer`)."""

    def publish(
        self,
        *,
        added: Sequence[AclEntry] = (),
        removed: Sequence[AclEntry] = (),
        super_users: Sequence[str] | None = None,
        allow_everyone_without_acls: bool | None = None,
    ) -> int:
        """Changes the entries in force."""
        ...

    def permits(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Asks."""
        ...

    def permits_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Asks about all resources of a type."""
        ...

    def permitted_operations(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """Asks about all operations."""
        ...


class Authorizer:
    """Decides from the access control lists in force. Without `authorizer.class.name` everything is permitted."""

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
        """Takes a change over: requests that start from now on obey it."""
        removed = self._known - set(change.acls_added) if change.full else set(change.acls_removed)
        added = set(change.acls_added) - self._known
        self._known = (self._known - removed) | added
        if self.enabled and (added or removed):
            self._native.publish(
                added=[binding.for_native() for binding in added],
                removed=[binding.for_native() for binding in removed],
            )

    def permits(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the principal of `context` may do `operation` on the resource called `name`."""
        if not self.enabled:
            return True
        permitted = self._native.permits(context.principal, context.client_host, operation, resource_type, name)
        kind = (operation, resource_type)
        if not permitted and kind not in context.refusals and log.isEnabledFor(logging.INFO):
            # One line for a request and kind: a request may name hundreds of thousands of resources.
            context.refusals.add(kind)
            log.info(
                "%r from %s may not %s on %s %r (API key %d)",
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
        """The same for somebody who is not (yet) the principal of `context`."""
        return self.permits(
            msgspec.structs.replace(context, principal=principal), operation, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def permits_on_cluster(self, context: RequestContext, operation: AclOperation) -> bool:
        """The same on the cluster."""
        return self.permits(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def lists(self, context: RequestContext, resource_type: ResourceType, name: str) -> bool:
        """Whether a listing shows a resource: DESCRIBE, without a line in the log for what it leaves out."""
        return not self.enabled or self._native.permits(
            context.principal, context.client_host, AclOperation.DESCRIBE, resource_type, name
        )

    def permits_any(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the operation is permitted on any resource of the type (KIP-679)."""
        return not self.enabled or self._native.permits_any(
            context.principal, context.client_host, operation, resource_type
        )

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """All that is permitted on a resource, as Kafka's bit field (KIP-430)."""
        return self._native.permitted_operations(context.principal, context.client_host, resource_type, name)

    def require_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED."""
        if not self.permits_on_cluster(context, operation):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")

    def require_group(self, context: RequestContext, operation: AclOperation, group_id: str) -> None:
        """Raises GROUP_AUTHORIZATION_FAILED."""
        if not self.permits(context, operation, ResourceType.GROUP, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")

    def require_topic(self, context: RequestContext, operation: AclOperation, name: str) -> None:
        """Raises TOPIC_AUTHORIZATION_FAILED."""
        if not self.permits(context, operation, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")

    def permits_topic(self, context: RequestContext, operation: AclOperation, name: str) -> bool:
        """`permits` on a topic."""
        return self.permits(context, operation, ResourceType.TOPIC, name)

    def may_on_cluster(self, context: RequestContext, operation: AclOperation) -> bool:
        """`permits_on_cluster` where a refusal is not the end: the resource itself is asked next."""
        return not self.enabled or self._native.permits(
            context.principal, context.client_host, operation, ResourceType.CLUSTER, CLUSTER_NAME
        )


def cluster_operations(authorizer: Authorizer, context: RequestContext) -> int:
    """What Metadata and DescribeCluster tell of the cluster (KIP-430): nothing to those who may not describe it."""
    if not authorizer.may_on_cluster(context, AclOperation.DESCRIBE):
        return 0
    return authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
