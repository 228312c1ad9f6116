"""Delegation tokens (KIP-48), in the znodes of Kafka on ZooKeeper:

    /tokenauth/tokens/[id]   {"version":3,"owner":"User:alice","tokenRequester":…,"renewers":[…],"issueTimestamp":…,…}

The store does not contain the client's password, which is the HMAC of the token's id with
`delegation.token.secret.key`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from pybroker.broker.metadata.metadata_store import Node
from pybroker.broker.metadata.znodes import DamagedNodeError, decode_json

log = logging.getLogger(__name__)

TOKENS = "/tokenauth/tokens"

_VERSION = 3
"""The version with `tokenRequester` (KIP-373); in earlier versions the owner is the requester."""


class DelegationToken(msgspec.Struct, frozen=True):
    """A token. Principals are as in ACLs (`User:alice`), times are milliseconds since 1970."""

    token_id: str
    owner: str
    """The principal whose permissions a client has when it logs in with the token."""
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    """The latest expiry time to which the token can be renewed."""
    expires_ms: int
    version: int = -1
    """Version of the token's znode."""

    def may_be_changed_by(self, principal: str) -> bool:
        """Return whether a principal may renew or expire the token."""
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
    """Return the path of the token's znode."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Return the content of the znode."""
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
    """Return the readable tokens among the znodes below `TOKENS`. With a damaged token, clients cannot log in."""
    found: dict[str, DelegationToken] = {}
    for path, node in nodes.items():
        if not path.startswith(TOKENS + "/"):
            continue
        token_id = path.removeprefix(TOKENS + "/")
        try:
            stored: _Json = decode_json(path, node.data, _Json)
        except DamagedNodeError as problem:
            log.error("ignored a damaged delegation token; clients cannot log in with it: %s", problem)
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
