"""Delegation tokens (KIP-48), where Kafka on ZooKeeper has them:

    /tokenauth/tokens/[id]   {"version":3,"owner":"User:alice","tokenRequester":…,"renewers":[…],"issueTimestamp":…,…}

What a client logs in with is not there: it is the HMAC of the token's id under `delegation.token.secret.key`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from pybroker.broker.metadata.store import Node
from pybroker.broker.metadata.znodes import DamagedNodeError, decode_json

log = logging.getLogger(__name__)

TOKENS = "/tokenauth/tokens"

_VERSION = 3
"""With `tokenRequester` (KIP-373); without it the owner has asked."""


class DelegationToken(msgspec.Struct, frozen=True):
    """A token. Principals are as in access control (`User:alice`), times are milliseconds since 1970."""

    token_id: str
    owner: str
    """Whose rights it gives."""
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    """It cannot be renewed beyond that."""
    expires_ms: int
    version: int = -1
    """Of its node."""

    def may_be_changed_by(self, principal: str) -> bool:
        """Whether somebody may renew it or let it expire."""
        return principal in (self.owner, self.requester, *self.renewers)


class _Json(msgspec.Struct, rename="camel"):
    owner: str
    token_id: str
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int
    token_requester: str = ""
    renewers: tuple[str, ...] = ()
    version: int = 1


def token_path(token_id: str) -> str:
    """Its node."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """The node's data."""
    return msgspec.json.encode(
        _Json(
            token.owner,
            token.token_id,
            token.issued_ms,
            token.max_ms,
            token.expires_ms,
            token.requester,
            token.renewers,
            _VERSION,
        )
    )


def load_tokens(nodes: Mapping[str, Node]) -> dict[str, DelegationToken]:
    """Those that can be read, of the nodes below `TOKENS`: nobody can log in by another one."""
    found: dict[str, DelegationToken] = {}
    for path, node in nodes.items():
        if not path.startswith(TOKENS + "/"):
            continue
        token_id = path.removeprefix(TOKENS + "/")
        try:
            stored: _Json = decode_json(path, node.data, _Json)
        except DamagedNodeError as problem:
            log.error("a delegation token is damaged, and nobody can log in by it: %s", problem)
            continue
        found[token_id] = DelegationToken(
            token_id,
            stored.owner,
            stored.token_requester or stored.owner,
            stored.renewers,
            stored.issue_timestamp,
            stored.max_timestamp,
            stored.expiry_timestamp,
            node.version,
        )
    return found
