"""Delegation tokens as SASL credentials (KIP-48): the token id is the user, and its HMAC with
`delegation.token.secret.key` is the password."""

from __future__ import annotations

import base64
import hmac

from pybroker.config import BrokerConfig


def secret_of(config: BrokerConfig) -> bytes | None:
    """Return `delegation.token.secret.key`; None: delegation tokens are disabled."""
    text = config["delegation.token.secret.key"] or config["delegation.token.master.key"]
    return str(text).encode() if text else None


def hmac_of(secret: bytes, token_id: str) -> bytes:
    """Return the token's HMAC, which a client proves to know."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(secret: bytes, token_id: str) -> str:
    """Return the HMAC in base64, which clients use as the password."""
    return base64.b64encode(hmac_of(secret, token_id)).decode()
