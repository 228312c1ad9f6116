"""Reads users, quotas, ACLs and delegation tokens from the records of KRaft's metadata log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pybroker.broker.metadata.acl_nodes import AclBinding
from pybroker.broker.metadata.quota_nodes import Entity
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.scram import ScramCredential


class AdoptedSecurity(msgspec.Struct):
    """The users, quotas, ACLs and delegation tokens after the last record of the log."""

    credentials: dict[tuple[str, int], ScramCredential] = {}
    """By user and mechanism."""
    quotas: dict[Entity, dict[str, float]] = {}
    acls: dict[Uuid, AclBinding] = {}
    """By the ACL id in KRaft's records."""
    tokens: dict[str, DelegationToken] = {}


def _credential(security: AdoptedSecurity, record: m.UserScramCredentialRecord) -> None:
    security.credentials[record.name, record.mechanism] = ScramCredential(
        record.salt, record.stored_key, record.server_key, record.iterations
    )


def _remove_credential(security: AdoptedSecurity, record: m.RemoveUserScramCredentialRecord) -> None:
    security.credentials.pop((record.name, record.mechanism), None)


def _quota(security: AdoptedSecurity, record: m.ClientQuotaRecord) -> None:
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    values = security.quotas.setdefault(entity, {})
    if record.remove:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value


def _acl(security: AdoptedSecurity, record: m.AccessControlEntryRecord) -> None:
    security.acls[record.id] = AclBinding(
        record.resource_type,
        record.pattern_type,
        record.resource_name,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def _remove_acl(security: AdoptedSecurity, record: m.RemoveAccessControlEntryRecord) -> None:
    security.acls.pop(record.id, None)


def _token(security: AdoptedSecurity, record: m.DelegationTokenRecord) -> None:
    security.tokens[record.token_id] = DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issued_ms=record.issue_timestamp,
        max_ms=record.max_timestamp,
        expires_ms=record.expiration_timestamp,
    )


def _remove_token(security: AdoptedSecurity, record: m.RemoveDelegationTokenRecord) -> None:
    security.tokens.pop(record.token_id, None)


KNOWN: Mapping[int, tuple[str, Callable[[AdoptedSecurity, Any], None]]] = {
    10: ("DelegationTokenRecord", _token),
    11: ("UserScramCredentialRecord", _credential),
    14: ("ClientQuotaRecord", _quota),
    18: ("AccessControlEntryRecord", _acl),
    19: ("RemoveAccessControlEntryRecord", _remove_acl),
    22: ("RemoveUserScramCredentialRecord", _remove_credential),
    26: ("RemoveDelegationTokenRecord", _remove_token),
}
"""By record type: the name, and the function that applies the record."""
