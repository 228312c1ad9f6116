"""Converts Apache Kafka's users, quotas, ACLs and delegation tokens to nodes of the metadata store."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pybroker.broker.metadata.acl_nodes import (
    OPERATION_NAMES,
    PERMISSION_NAMES,
    TYPE_NAMES,
    AclBinding,
    acl_path,
    encode_acls,
)
from pybroker.broker.metadata.metadata_store import Create, Operation
from pybroker.broker.metadata.quota_nodes import (
    CLIENT_ID,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    USER,
    Entity,
    entity_of,
    parents_of,
    path_of,
    user_path,
)
from pybroker.broker.metadata.token_nodes import encode_token, token_path
from pybroker.broker.metadata.znodes import encode_config
from pybroker.broker.offline.adopt.security_records import AdoptedSecurity
from pybroker.protocol.acl_codes import PatternType
from pybroker.protocol.scram import ScramCredential, ScramMechanism

_ENTITIES = {(CLIENT_ID,), (USER,), (CLIENT_ID, USER), (IP,)}
_PATTERNS = {PatternType.LITERAL, PatternType.PREFIXED}


def operations_of(security: AdoptedSecurity, notes: list[str]) -> list[Operation]:
    """Return operations that create the nodes. Add a line to `notes` for each thing that this broker does not support,
    and for each step that the operator must do.
    """
    nodes: dict[str, dict[str, str]] = {}
    for (name, number), credential in security.credentials.items():
        _add_credential(nodes, name, number, credential, notes)
    for entity, values in security.quotas.items():
        _add_quotas(nodes, entity, values, notes)
    operations: list[Operation] = [Create(path, data) for path, data in _with_parents(nodes).items()]
    patterns: dict[str, list[AclBinding]] = {}
    for binding in security.acls.values():
        if _is_known(binding):
            patterns.setdefault(acl_path(binding.pattern), []).append(binding)
        else:
            notes.append(f"an ACL is not adopted, because this broker does not support its type: {binding}")
    operations += [Create(path, encode_acls(dict.fromkeys(bindings))) for path, bindings in patterns.items()]
    operations += [Create(token_path(token.token_id), encode_token(token)) for token in security.tokens.values()]
    if security.tokens:
        notes.append(
            f"{len(security.tokens)} delegation tokens are adopted. Clients can log in with them if "
            "delegation.token.secret.key has the same value as in Apache Kafka"
        )
    return operations


def _add_credential(
    nodes: dict[str, dict[str, str]], name: str, number: int, credential: ScramCredential, notes: list[str]
) -> None:
    if number not in list(ScramMechanism):
        notes.append(
            f"user {name}: the credential of SCRAM mechanism {number} is not adopted, because this broker does "
            "not support the mechanism"
        )
        return
    nodes.setdefault(user_path(name), {})[ScramMechanism(number).mechanism_name] = credential.render()


def _add_quotas(
    nodes: dict[str, dict[str, str]], entity: Entity, values: Mapping[str, float], notes: list[str]
) -> None:
    whose = ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
    kinds = tuple(kind for kind, _ in entity)
    known = {} if kinds not in _ENTITIES else OF_ADDRESSES if kinds == (IP,) else OF_CLIENTS
    for key, value in values.items():
        kind = known.get(key)
        if kind is None or not 0 < value <= kind.highest or math.isinf(value):
            notes.append(f"{whose}: the quota {key}={value} has no effect in this broker")
            continue
        text = str(int(value)) if kind.integral else repr(value)
        nodes.setdefault(path_of(entity), {})[key] = text


def _with_parents(nodes: Mapping[str, dict[str, str]]) -> dict[str, bytes]:
    """Encode the nodes. The nodes of a user's clients are below the user's node, so the user's node is created even if
    the user has no settings. Parents come before children.
    """
    found: dict[str, bytes] = {}
    for path, config in nodes.items():
        for parent in parents_of(path):
            found.setdefault(parent, encode_config(nodes.get(parent, {})) if entity_of(parent) else b"")
        found[path] = encode_config(config)
    return found


def _is_known(binding: AclBinding) -> bool:
    return (
        binding.resource_type in TYPE_NAMES
        and binding.pattern_type in _PATTERNS
        and binding.operation in OPERATION_NAMES
        and binding.permission in PERMISSION_NAMES
    )
