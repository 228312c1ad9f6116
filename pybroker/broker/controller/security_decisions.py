"""Decisions about ACLs, users and delegation tokens (KIP-48). Pure; the caller has validated the values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.cluster.events import AlterUsers, ChangeToken, CreateAcls, CreateToken, DeleteAcls
from pybroker.broker.controller.acl_index import AclIndex
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.metadata.acl_nodes import AclBinding, AclFilter, AclNode, AclPattern, acl_path, encode_acls
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta
from pybroker.broker.metadata.metadata_store import Create, Delete, Operation, Set
from pybroker.broker.metadata.quota_nodes import user_path
from pybroker.broker.metadata.token_nodes import encode_token, token_path
from pybroker.broker.metadata.znodes import encode_config
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

_NO_NODE = AclNode((), -1)

MATCHES_MAX = 100_000
"""Limit of matches of a request, over all its filters."""


@decides(CreateAcls)
def decide_create_acls(image: ClusterImage, event: CreateAcls) -> Decision:
    """Add ACLs that do not exist yet."""
    wanted: dict[AclPattern, dict[AclBinding, None]] = {}
    for binding in event.bindings:
        entries = wanted.setdefault(binding.pattern, dict.fromkeys(image.acls.get(binding.pattern, _NO_NODE).bindings))
        entries[binding] = None
    return _acl_decision(image, {pattern: tuple(entries) for pattern, entries in wanted.items()}, None)


@decides(DeleteAcls)
def decide_delete_acls(image: ClusterImage, event: DeleteAcls) -> Decision:
    """Delete ACLs. If an ACL matches several filters, it is in the reply to each of them. Raises POLICY_VIOLATION if
    the reply would be too large."""
    index = AclIndex(binding for node in image.acls.values() for binding in node.bindings)
    # One filter may match all ACLs of a large cluster. The replies to thousands of such filters would fill the memory.
    room = max(MATCHES_MAX, sum(len(node.bindings) for node in image.acls.values()))
    by_filter: dict[AclFilter, tuple[AclBinding, ...]] = {}
    reply: list[tuple[AclBinding, ...]] = []
    for which in event.filters:
        if which not in by_filter:
            by_filter[which] = index.matching(which)
        reply.append(by_filter[which])
        room -= len(by_filter[which])
        if room < 0:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The filters match more than {MATCHES_MAX} ACLs together. Nothing is removed. Send fewer filters.",
            )
    gone = {binding for found in by_filter.values() for binding in found}
    changed = {binding.pattern for binding in gone}
    left = {
        pattern: tuple(binding for binding in image.acls[pattern].bindings if binding not in gone)
        for pattern in changed
    }
    return _acl_decision(image, left, reply)


def _acl_decision(image: ClusterImage, wanted: Mapping[AclPattern, tuple[AclBinding, ...]], reply: object) -> Decision:
    operations: list[Operation] = []
    nodes: dict[AclPattern, AclNode] = {}
    for pattern, bindings in wanted.items():
        before = image.acls.get(pattern, _NO_NODE)
        if bindings == before.bindings:
            continue
        path = acl_path(pattern)
        if not bindings:
            operations.append(Delete(path, before.version))
        elif before.version < 0:
            operations.append(Create(path, encode_acls(bindings)))
        else:
            operations.append(Set(path, encode_acls(bindings), before.version))
        nodes[pattern] = AclNode(bindings, before.version + 1)
    return Decision(tuple(operations), ImageDelta(acls=nodes), reply)


@decides(AlterUsers)
def decide_alter_users(image: ClusterImage, event: AlterUsers) -> Decision:
    """Change credentials; each user's changes succeed or fail together (KIP-554)."""
    operations: list[Operation] = []
    users: dict[str, ConfigImage] = {}
    reply: list[KafkaError | None] = []
    for change in event.changes:
        before = image.users.get(change.name, ConfigImage({}, -1))
        if any(value is None and name not in before.config for name, value in change.credentials.items()):
            reply.append(
                KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            )
            continue
        merged: dict[str, str | None] = {**before.config, **change.credentials}
        config = {name: value for name, value in merged.items() if value is not None}
        data = encode_config(config)
        path = user_path(change.name)
        operations.append(Create(path, data) if before.version < 0 else Set(path, data, before.version))
        users[change.name] = ConfigImage(config, before.version + 1)
        reply.append(None)
    return Decision(tuple(operations), ImageDelta(users=users), reply)


@decides(CreateToken)
def decide_create_token(image: ClusterImage, event: CreateToken) -> Decision:
    """Store a new token. Token ids are random: if the id already exists, the event is a retry, and the image stays
    unchanged.
    """
    token = msgspec.structs.replace(event.token, version=0)
    if token.token_id in image.tokens:
        return nothing(None)
    operation = Create(token_path(token.token_id), encode_token(token))
    return Decision((operation,), ImageDelta(tokens={token.token_id: token}), None)


@decides(ChangeToken)
def decide_change_token(image: ClusterImage, event: ChangeToken) -> Decision:
    """Change the expiry time of a token, or remove it. Raises KafkaError DELEGATION_TOKEN_NOT_FOUND if the token does
    not exist, DELEGATION_TOKEN_EXPIRED if it has expired, DELEGATION_TOKEN_OWNER_MISMATCH if the caller must not change
    it.
    """
    token = image.tokens.get(event.token_id)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such delegation token.")
    if event.by is not None and not token.may_be_changed_by(event.by):
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            f"{event.by} is neither the owner nor a renewer of this delegation token.",
        )
    path = token_path(token.token_id)
    if event.expires_ms is None:
        if event.by is None and token.expires_ms > event.now_ms:
            return nothing(token.expires_ms)
        return Decision((Delete(path, token.version),), ImageDelta(tokens={token.token_id: None}), event.now_ms)
    if event.by is not None and token.expires_ms < event.now_ms:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The delegation token has expired.")
    changed = msgspec.structs.replace(
        token, expires_ms=min(token.max_ms, event.expires_ms), version=token.version + 1
    )
    operation = Set(path, encode_token(changed), token.version)
    return Decision((operation,), ImageDelta(tokens={token.token_id: changed}), changed.expires_ms)
