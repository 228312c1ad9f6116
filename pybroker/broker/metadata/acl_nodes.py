"""ACLs with Kafka's wire codes (KIP-140, KIP-290), and their znodes in the store.

/kafka-acl/[Type]/[name]                       ACLs of literal patterns; the name * is the wildcard

/kafka-acl-extended/prefixed/[Type]/[prefix]   ACLs of prefixed patterns
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.native import AclEntry
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType

CLUSTER_NAME = "kafka-cluster"
"""The only name of resource type CLUSTER."""

WILDCARD = "*"
"""The name that matches everything. As the name of a literal pattern, it matches every resource; as a host, every host;
in "User:*", every principal."""


class AclBinding(NamedTuple):
    """One ACL with its resource pattern; the numbers are those of pybroker.protocol.acl_codes."""

    resource_type: int
    pattern_type: int
    name: str
    principal: str
    """`User:alice`; `User:*` is every user."""
    host: str
    """An address, or `*`."""
    operation: int
    permission: int

    @property
    def pattern(self) -> AclPattern:
        """Return the resource pattern without the rest. One znode has all ACLs of a pattern."""
        return self.resource_type, self.pattern_type, self.name

    def for_native(self) -> AclEntry:
        """Return the ACL in the form that native code expects."""
        return AclEntry(
            resource_type=self.resource_type,
            prefixed=self.pattern_type == PatternType.PREFIXED,
            name=self.name,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            allow=self.permission == PermissionType.ALLOW,
        )


AclPattern = tuple[int, int, str]
"""(resource type, pattern type, name)"""


class AclFilter(NamedTuple):
    """A filter for ACLs; None and ANY match everything (KIP-290)."""

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, binding: AclBinding) -> bool:
        """Return whether the filter matches the ACL."""
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_name(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (PermissionType.ANY, binding.permission)
        )

    def _matches_name(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == binding.name
        if binding.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(binding.name)
        return binding.name in (self.name, WILDCARD)


# --- in the store -----------------------------------------------------------------------------------------------------

ACLS = "/kafka-acl"
EXTENDED_ACLS = "/kafka-acl-extended"

TYPE_NAMES = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""The names of resource types in Kafka's paths and tools."""

OPERATION_NAMES = {operation: operation.name.title().replace("_", "") for operation in AclOperation}
PERMISSION_NAMES = {PermissionType.ALLOW: "Allow", PermissionType.DENY: "Deny"}
_TYPES = {name: kind for kind, name in TYPE_NAMES.items()}
_OPERATIONS = {name: operation for operation, name in OPERATION_NAMES.items()}
_PERMISSIONS = {name: permission for permission, name in PERMISSION_NAMES.items()}

ACL_PATHS = tuple(
    path for name in TYPE_NAMES.values() for path in (f"{ACLS}/{name}", f"{EXTENDED_ACLS}/prefixed/{name}")
)
"""Parents of the ACLs' znodes. They are created once."""


class AclNode(msgspec.Struct, frozen=True):
    """The ACLs of one pattern, and the version of its znode."""

    bindings: tuple[AclBinding, ...]
    version: int


def acl_path(pattern: AclPattern) -> str:
    """Return Kafka's path: `/kafka-acl/<Type>/<name>`, or below `/kafka-acl-extended/prefixed` for prefixed patterns.
    Characters that a path cannot contain are percent-encoded."""
    kind, pattern_type, name = pattern
    parent = ACLS if pattern_type == PatternType.LITERAL else f"{EXTENDED_ACLS}/prefixed"
    return f"{parent}/{TYPE_NAMES[ResourceType(kind)]}/{encode_name(name)}"


def encode_name(name: str) -> str:
    """Return a name as the last part of a path."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return name.replace("%", "%25").replace("/", "%2F").replace("\x00", "%00")


def encode_acls(bindings: Iterable[AclBinding]) -> bytes:
    """Return Kafka's JSON, version 1."""
    acls = [
        {
            "principal": binding.principal,
            "permissionType": PERMISSION_NAMES[PermissionType(binding.permission)],
            "operation": OPERATION_NAMES[AclOperation(binding.operation)],
            "host": binding.host,
        }
        for binding in bindings
    ]
    return msgspec.json.encode({"version": 1, "acls": acls})


class _EntryJson(msgspec.Struct, rename="camel"):
    principal: str
    permission_type: str
    operation: str
    host: str


class _AclsJson(msgspec.Struct):
    acls: list[_EntryJson]


def decode_acls(path: str, data: bytes) -> tuple[AclBinding, ...]:
    """Return the ACLs in a znode. Raises DamagedNodeError."""
    parts = path.split("/")
    prefixed = parts[1] == EXTENDED_ACLS[1:]
    names = parts[3:] if prefixed else parts[2:]
    try:
        kind = _TYPES[names[0]]
        name = unquote("/".join(names[1:]))
        pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        node = msgspec.json.decode(data, type=_AclsJson)
        return tuple(
            AclBinding(
                kind,
                pattern_type,
                name,
                entry.principal,
                entry.host,
                _OPERATIONS[entry.operation],
                _PERMISSIONS[entry.permission_type],
            )
            for entry in node.acls
        )
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedNodeError(f"{path}: {problem!r}") from None
