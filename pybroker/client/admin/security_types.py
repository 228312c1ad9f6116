"""Types of AdminClient's calls about ACLs and users; codes are Kafka's."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from pybroker.protocol.acl_codes import AclOperation, PatternType, ResourceType
from pybroker.protocol.acl_codes import PermissionType as AclPermissionType
from pybroker.protocol.scram import STORED_ITERATIONS_MIN, ScramMechanism

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "PatternType",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
]


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An ACL entry: principal (`User:alice`), operation, resource, and host (`*` = everywhere)."""

    resource_type: ResourceType
    name: str
    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    pattern_type: PatternType = PatternType.LITERAL
    host: str = "*"


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """A filter of ACL entries; None and ANY match all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new password. Only the salt and the salted password are sent. iterations: 4096 to 16384."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    iterations: int = STORED_ITERATIONS_MIN
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(24), repr=False)

    @property
    def salted_password(self) -> bytes:
        """Return RFC 5802's Hi(password, salt, iterations)."""
        return self.mechanism.salted_password(self.password, self.salt, self.iterations)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """The deletion of a user's password for one mechanism."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """The public part of a stored password."""

    mechanism: ScramMechanism
    iterations: int
