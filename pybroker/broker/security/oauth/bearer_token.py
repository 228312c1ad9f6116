"""Validation of a token (a signed JWT, RFC 7519). Pure: the caller passes the keys and the time.

The rules are those of Kafka's `BrokerJwtValidator`: a signature by one of the provider's keys, `exp`, `iat`, a
subject; issuer and audience if they are configured. The claims are read only after the signature has been checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from joserfc import jws
from joserfc.errors import BadSignatureError, ExpiredTokenError, JoseError
from joserfc.jwt import JWTClaimsRegistry
from joserfc.util import urlsafe_b64decode

from pybroker.broker.security.oauth.jwks import ALGORITHMS, Key, KeySet
from pybroker.config.broker_oauth import OAuthSettings

HEADER_BYTES_MAX = 16 << 10
"""Size limit of a header, which may contain certificates (x5c)."""

SUBJECT_CHARS_MAX = 1_000

LIFETIME_MS_MAX = 365 * 86_400_000
"""The maximum session lifetime, even if a token claims a longer lifetime."""


class TokenError(Exception):
    """An invalid token. The text is one line for the broker's log. It contains no claims of the token except names,
    shortened and quoted.
    """


class UnknownKeyError(TokenError):
    """The token's key is unknown; it may be a new key of the provider."""


class Bearer(NamedTuple):
    """The owner of a valid token."""

    user: str
    left_ms: int
    """Milliseconds until the token expires, at least 1."""


class _Registry(jws.JWSRegistry):
    max_header_length = HEADER_BYTES_MAX


# Unknown header fields are ignored (RFC 7515, 4), except the fields in `crit`.
_REGISTRY = _Registry(algorithms=list(ALGORITHMS), strict_check_header=False)


def check(token: str, keys: KeySet, settings: OAuthSettings, now_ms: int) -> Bearer:
    """Validate a token. Raise TokenError if the token is invalid; its subclass UnknownKeyError if its key is unknown.
    """
    parts = token.split(".")
    if len(parts) == 5:
        raise TokenError("encrypted tokens (JWE) are not supported")
    if len(parts) != 3:
        raise TokenError("it is not a JWT: opaque tokens are not supported")
    header = _object(parts[0], "header")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError(f"alg={_shown(algorithm)} is not supported, only {', '.join(ALGORITHMS)}")
    if "crit" in header or "b64" in header:
        raise TokenError("its header has critical fields (crit, b64), which are not supported")
    if not isinstance(kid, str | None):
        raise TokenError("its kid is not a string")
    key = _key(keys, kid, algorithm)
    try:
        found = jws.deserialize_compact(token, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, RecursionError) as problem:
        reason = "bad signature" if isinstance(problem, BadSignatureError) else _shown(str(problem))
        raise TokenError(f"{reason}, by key {_shown(kid)}") from None
    # Read the signed payload, not the unverified text.
    return _bearer(_object(found.segments["payload"].decode(), "claims"), settings, now_ms)


def _object(part: str, what: str) -> dict[str, Any]:
    """Decode a part of the token. Raise TokenError if it is malformed."""
    try:
        found = msgspec.json.decode(urlsafe_b64decode(part.encode()))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        raise TokenError(f"cannot read its {what}") from None
    if not isinstance(found, dict):
        raise TokenError(f"its {what} is not an object")
    return found


def _key(keys: KeySet, kid: str | None, algorithm: str) -> Key:
    """Return the key for the token's signature. Raise TokenError if there is no such key."""
    named = keys.named(kid)
    if not named:
        reason = "the provider's keys are not loaded yet" if not len(keys) else f"the provider has no key {_shown(kid)}"
        raise UnknownKeyError(reason)
    fitting = [key for key in named if key.key_type == ALGORITHMS[algorithm] and key.alg in (None, algorithm)]
    if not fitting:
        raise TokenError(f"key {_shown(kid)} is not for alg={algorithm}")
    if len(fitting) > 1:
        raise TokenError(f"{len(fitting)} keys fit kid={_shown(kid)}")
    return fitting[0]


def _bearer(claims: Mapping[str, Any], settings: OAuthSettings, now_ms: int) -> Bearer:
    """Check the claims. Raise TokenError if a claim is missing or wrong."""
    expected: dict[str, Any] = {"exp": {"essential": True}, "iat": {"essential": True}}
    if settings.issuer is not None:
        expected["iss"] = {"essential": True, "value": settings.issuer}
    if settings.audiences:
        expected["aud"] = {"essential": True, "values": list(settings.audiences)}
    try:
        JWTClaimsRegistry(now=now_ms // 1000, leeway=settings.skew_s, **expected).validate(dict(claims))
    except ExpiredTokenError:
        raise TokenError(f"expired: exp={_shown(claims['exp'])}, now={now_ms // 1000}") from None
    except (JoseError, ValueError, TypeError, OverflowError) as problem:
        names = [name for name in ("iss", "aud") if name in claims]
        reason = ", ".join(f"{name}={_shown(claims[name])}" for name in names)
        raise TokenError(f"its claims are not as expected: {_shown(str(problem))} ({reason})") from None
    scope = claims.get(settings.scope_claim, "")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(word, str) for word in scope)):
        raise TokenError(f"claim {settings.scope_claim} is neither a string nor a list of strings")
    user = claims.get(settings.sub_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenError(f"claim {settings.sub_claim} does not name a user")
    if len(user) > SUBJECT_CHARS_MAX or not user.isprintable():
        raise TokenError(f"claim {settings.sub_claim} is not a valid user name: {_shown(user)}")
    expires_s = min(claims["exp"], now_ms // 1000 + LIFETIME_MS_MAX // 1000)
    left_ms = int(expires_s * 1000) - now_ms
    # The clock of this broker is ahead of the provider's clock. Do not end an accepted session immediately.
    return Bearer(user, left_ms if left_ms > 0 else max(1, left_ms + settings.skew_s * 1000))


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
