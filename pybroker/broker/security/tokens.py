"""Delegation tokens as clients log in with them (KIP-48): the token's id is the user, and what is made of it and of
`delegation.token.secret.key` the password.
"""

from __future__ import annotations

import base64
import hmac

from pybroker.config import BrokerConfig


def secret_of(config: BrokerConfig) -> bytes | None:
    """`delegation.token.secret.key`; None: there are no delegation tokens."""
    text = config["delegation.token.secret.key"] or config["delegation.token.master.key"]
    return str(text).encode() if text else None


def hmac_of(secret: bytes, token_id: str) -> bytes:
    """What a client proves to know."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(secret: bytes, token_id: str) -> str:
    """As clients are told to log in with."""
    return base64.b64encode(hmac_of(secret, token_id)).decode()
