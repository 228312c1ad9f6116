"""Access control types, for callers of the authorizer."""

from __future__ import annotations

from pybroker.broker.metadata.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
)
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType

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
