"""ACLs and delegation tokens as AccessControlEntryRecord and DelegationTokenRecord, and the records that remove them.

Kafka's record removes an ACL by its id. In pybroker the id is a digest of the ACL. The record also contains the
resource pattern in tagged fields, so that the reader needs no index by id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pybroker.broker.metadata.acl_nodes import AclBinding, AclNode, AclPattern
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.records.frames import UnreadableRecordError, encode_record
from pybroker.broker.metadata.records.own_facts import OwnFacts
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.native import Uuid
from pybroker.protocol import messages as m

_NO_VERSION = -1


def acl_id(binding: AclBinding) -> Uuid:
    """Return the id of an ACL in Kafka's records."""
    return Uuid.from_bytes(hashlib.sha256(msgspec.json.encode(binding)).digest()[:16])


def access_frames(before: ClusterImage, delta: ImageDelta, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of a delta's ACLs and delegation tokens."""
    for pattern, node in delta.acls.items():
        known = before.acls.get(pattern)
        yield from _acl_frames(pattern, () if known is None else known.bindings, node.bindings)
        facts.add("acl_versions", m.NoOpRecord_AclVersion(*pattern, node.version))
        yield from facts.full()
    for token_id, token in delta.tokens.items():
        yield encode_record(m.RemoveDelegationTokenRecord(token_id) if token is None else _token_record(token))


def _acl_frames(pattern: AclPattern, old: Sequence[AclBinding], new: Sequence[AclBinding]) -> Iterator[bytes]:
    kept = tuple(binding for binding in old if binding in new)
    added = new[len(kept) :]
    if (*kept, *added) != tuple(new) or len(set(old)) < len(old):
        # The order of the ACLs has changed, so write all of them.
        kept, added = (), new
    for binding in old:
        if binding not in kept:
            yield encode_record(m.RemoveAccessControlEntryRecord(acl_id(binding), *pattern))
    for binding in added:
        yield encode_record(
            m.AccessControlEntryRecord(
                acl_id(binding),
                binding.resource_type,
                binding.name,
                binding.pattern_type,
                binding.principal,
                binding.host,
                binding.operation,
                binding.permission,
            )
        )


def _token_record(token: DelegationToken) -> object:
    return m.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.token_id,
        version=token.version,
    )


class AccessReader:
    """Reads ACLs and delegation tokens from records. The records contain differences from an image."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self._acls: dict[AclPattern, list[AclBinding]] = {}
        self._versions: dict[AclPattern, int] = {}
        self.tokens: dict[str, DelegationToken | None] = {}

    def add(self, record: m.AccessControlEntryRecord) -> None:
        binding = AclBinding(
            record.resource_type,
            record.pattern_type,
            record.resource_name,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self._bindings(binding.pattern).append(binding)

    def remove(self, record: m.RemoveAccessControlEntryRecord) -> None:
        bindings = self._bindings((record.resource_type, record.pattern_type, record.resource_name))
        for place, binding in enumerate(bindings):
            if acl_id(binding) == record.id:
                del bindings[place]
                return
        raise UnreadableRecordError(f"the removal of ACL {record.id}, which is unknown")

    def versions(self, structs: list[Any]) -> None:
        """Read the versions of the patterns' znodes from NoOpRecord."""
        for struct in structs:
            self._versions[struct.resource_type, struct.pattern_type, struct.resource_name] = struct.version

    def token(self, record: m.DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = DelegationToken(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
            record.version,
        )

    def remove_token(self, record: m.RemoveDelegationTokenRecord) -> None:
        self.tokens[record.token_id] = None

    def acls(self) -> Mapping[AclPattern, AclNode]:
        """Return all ACLs of each changed pattern."""
        found: dict[AclPattern, AclNode] = {}
        for pattern in {**self._acls, **self._versions}:
            known = self._before.acls.get(pattern, AclNode((), _NO_VERSION))
            bindings = self._acls.get(pattern)
            found[pattern] = AclNode(
                known.bindings if bindings is None else tuple(bindings), self._versions.get(pattern, known.version)
            )
        return found

    def _bindings(self, pattern: AclPattern) -> list[AclBinding]:
        bindings = self._acls.get(pattern)
        if bindings is None:
            known = self._before.acls.get(pattern)
            bindings = self._acls[pattern] = [] if known is None else list(known.bindings)
        return bindings
