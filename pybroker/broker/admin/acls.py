"""Add, remove and find access control entries (KIP-140, KIP-290), independent of protocol versions."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import CreateAcls, DeleteAcls
from pybroker.broker.metadata.acl_nodes import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
)
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.errors import KafkaError
from pybroker.native import NativeAuthorizer
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_TYPES, _PATTERNS, _OPERATIONS, _PERMISSIONS = (
    frozenset(map(int, kinds)) for kinds in (ResourceType, PatternType, AclOperation, PermissionType)
)

_UNKNOWN_ELEMENTS = "The AclBindingFilter must not contain UNKNOWN elements."

NAME_BYTES_MAX = 32767
"""Maximum bytes of a name, principal or host. It is the limit of a string in older versions of the protocol, so that
clients of any version can read and remove every entry.
"""


class AclAdmin:
    """The ACL requests. Reads the cluster view and submits changes to the controller."""

    def __init__(self, view: ClusterView, controller: ControllerClient, *, enabled: bool) -> None:
        self._view = view
        self._controller = controller
        self._enabled = enabled

    def _require_authorizer(self) -> None:
        if not self._enabled:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")

    def describe(self, which: AclFilter) -> list[AclBinding]:
        """Return the entries that match. Raises KafkaError."""
        self._require_authorizer()
        # As in Kafka, newer clients may use numbers of a later protocol version in a filter. Such a number matches no
        # entry.
        if 0 in (which.resource_type, which.pattern_type, which.operation, which.permission):
            raise KafkaError(ErrorCode.INVALID_REQUEST, _UNKNOWN_ELEMENTS)
        if _has_unknown(which):
            return []
        nodes = self._view.image.acls.values()
        return [binding for node in nodes for binding in node.bindings if which.matches(binding)]

    async def create(
        self, bindings: Sequence[AclBinding], caller: Caller, turns: LoopShares
    ) -> list[KafkaError | None]:
        """Return for each entry, in order, None if the entry now exists, or its error. Raises KafkaError if the request
        as a whole fails, or if a broker has not applied the change in time.
        """
        self._require_authorizer()
        problems = [_problem(binding) async for binding in turns.each(bindings)]
        good = tuple(binding for binding, problem in zip(bindings, problems, strict=True) if problem is None)
        if good:
            answer = await self._controller.submit(CreateAcls(good), caller=caller)
            async for binding in turns.each(good):
                log.info("ACL added by=%r: %s", caller.principal, describe_binding(binding))
            if answer.late is not None:
                raise answer.late
        return [None if problem is None else KafkaError(ErrorCode.INVALID_REQUEST, problem) for problem in problems]

    async def delete(
        self, filters: Sequence[AclFilter], caller: Caller, turns: LoopShares
    ) -> list[Sequence[AclBinding] | KafkaError]:
        """Return the removed entries of each filter, in order. Raises KafkaError if the request as a whole fails, or if
        a broker has not applied the change in time.
        """
        self._require_authorizer()
        results: list[Sequence[AclBinding] | KafkaError] = []
        good: list[AclFilter] = []
        async for which in turns.each(filters):
            if _has_unknown(which):
                results.append(KafkaError(ErrorCode.INVALID_REQUEST, _UNKNOWN_ELEMENTS))
            else:
                good.append(which)
                results.append(())
        if not good:
            return results
        answer = await self._controller.submit(DeleteAcls(tuple(good)), caller=caller)
        removed = answer.reply
        found = iter(removed)
        results = [result if isinstance(result, KafkaError) else next(found) for result in results]
        distinct = dict.fromkeys([binding async for found in turns.each(removed) for binding in found])
        async for binding in turns.each(distinct):
            log.info("ACL removed by=%r: %s", caller.principal, describe_binding(binding))
        if answer.late is not None:
            raise answer.late
        return results


def describe_binding(binding: AclBinding) -> str:
    """Return an entry as text for the log. Names from clients are quoted."""
    permission = "allow" if binding.permission == PermissionType.ALLOW else "deny"
    return (
        f"{permission} {binding.principal!r} from {binding.host!r} {AclOperation(binding.operation).name} on "
        f"{PatternType(binding.pattern_type).name} {ResourceType(binding.resource_type).name} {binding.name!r}"
    )


def _has_unknown(which: AclFilter) -> bool:
    known = (
        (which.resource_type, _TYPES),
        (which.pattern_type, _PATTERNS),
        (which.operation, _OPERATIONS),
        (which.permission, _PERMISSIONS),
    )
    return any(value == 0 or value not in kinds for value, kinds in known)


def _problem(binding: AclBinding) -> str | None:
    kind, operation, permission = binding.resource_type, binding.operation, binding.permission
    if kind not in _TYPES or kind <= ResourceType.ANY:
        return f"Invalid resourceType {kind}"
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {binding.pattern_type}"
    if operation not in _OPERATIONS or operation <= AclOperation.ANY:
        return f"Invalid operation {operation}"
    if permission not in (PermissionType.ALLOW, PermissionType.DENY):
        return f"Invalid permissionType {permission}"
    if kind == ResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not binding.name:
        return "Invalid empty resource name"
    # As in Kafka, an empty type or name is allowed. It makes an ACL for a principal that does not exist.
    if ":" not in binding.principal:
        return (
            f"Could not parse principal from `{binding.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    if not binding.host:
        return "Invalid empty host"
    if not NativeAuthorizer.is_valid_host(binding.host):
        return f"Invalid CIDR notation '{binding.host}'"
    if any(len(text.encode()) > NAME_BYTES_MAX for text in (binding.name, binding.principal, binding.host)):
        return f"A name is longer than {NAME_BYTES_MAX} bytes"
    return None
