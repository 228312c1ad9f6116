"""Whether a token (a signed JWT, RFC 7519) is one of the provider's, for us, and valid now. Pure: keys and time are
given.

Rules are those of Kafka's `BrokerJwtValidator`: a signature by one of the provider's keys, `exp` and `iat`, a subject;
issuer and audience where they are expected. Nothing of a token is believed before its signature has been checked.
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
"""Certificates may stand in it (x5c)."""

SUBJECT_CHARS_MAX = 1_000

LIFETIME_MS_MAX = 365 * 86_400_000
"""Of a session; a token may say any number."""


class TokenError(Exception):
    """Not a token that lets anybody in. The text is for our log: one line, with nothing of the token but names, cut and
    quoted."""


class UnknownKeyError(TokenError):
    """The key that it names is not here; the provider may have a new one."""


class Bearer(NamedTuple):
    """Who shows a good token."""

    user: str
    left_ms: int
    """For how long it is valid yet, at least 1."""


class _Registry(jws.JWSRegistry):
    max_header_length = HEADER_BYTES_MAX


# Header fields that nobody knows are passed over (RFC 7515, 4), but for those that `crit` names.
_REGISTRY = _Registry(algorithms=list(ALGORITHMS), strict_check_header=False)


def check(token: str, keys: KeySet, settings: OAuthSettings, now_ms: int) -> Bearer:
    """Raises TokenError, UnknownKeyError among them."""
    parts = token.split(".")
    if len(parts) == 5:
        raise TokenError("it is encrypted (JWE), which is not taken")
    if len(parts) != 3:
        raise TokenError("it is not a JWT: opaque tokens are not taken")
    header = _object(parts[0], "header")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError(f"alg={_shown(algorithm)} is not taken; {', '.join(ALGORITHMS)} are")
    if "crit" in header or "b64" in header:
        raise TokenError("its header has critical fields (crit, b64), of which none are known")
    if not isinstance(kid, str | None):
        raise TokenError("its kid is not a text")
    key = _key(keys, kid, algorithm)
    try:
        found = jws.deserialize_compact(token, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, RecursionError) as problem:
        told = "bad signature" if isinstance(problem, BadSignatureError) else _shown(str(problem))
        raise TokenError(f"{told}, by key {_shown(kid)}") from None
    # What was signed, not what stands before it is looked at.
    return _bearer(_object(found.segments["payload"].decode(), "claims"), settings, now_ms)


def _object(part: str, what: str) -> dict[str, Any]:
    """Raises TokenError."""
    try:
        found = msgspec.json.decode(urlsafe_b64decode(part.encode()))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        raise TokenError(f"its {what} cannot be read") from None
    if not isinstance(found, dict):
        raise TokenError(f"its {what} is not an object")
    return found


def _key(keys: KeySet, kid: str | None, algorithm: str) -> Key:
    """Raises TokenError."""
    named = keys.named(kid)
    if not named:
        told = "the provider's keys are not known yet" if not len(keys) else f"the provider has no key {_shown(kid)}"
        raise UnknownKeyError(told)
    fitting = [key for key in named if key.key_type == ALGORITHMS[algorithm] and key.alg in (None, algorithm)]
    if not fitting:
        raise TokenError(f"key {_shown(kid)} is not for alg={algorithm}")
    if len(fitting) > 1:
        raise TokenError(f"it says kid={_shown(kid)}, and {len(fitting)} keys fit")
    return fitting[0]


def _bearer(claims: Mapping[str, Any], settings: OAuthSettings, now_ms: int) -> Bearer:
    """Raises TokenError."""
    expected: dict[str, Any] = {"exp": {"essential": True}, "iat": {"essential": True}}
    if settings.issuer is not None:
        expected["iss"] = {"essential": True, "value": settings.issuer}
    if settings.audiences:
        expected["aud"] = {"essential": True, "values": list(settings.audiences)}
    try:
        JWTClaimsRegistry(now=now_ms // 1000, leeway=settings.skew_s, **expected).validate(dict(claims))
    except ExpiredTokenError:
        raise TokenError(f"expired: exp={_shown(claims['exp'])}, and it is {now_ms // 1000}") from None
    except (JoseError, ValueError, TypeError, OverflowError) as problem:
        names = [name for name in ("iss", "aud") if name in claims]
        told = ", ".join(f"{name}={_shown(claims[name])}" for name in names)
        raise TokenError(f"its claims are not as expected: {_shown(str(problem))} ({told})") from None
    scope = claims.get(settings.scope_claim, "")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
        raise TokenError(f"claim {settings.scope_claim} is neither a text nor a list of them")
    user = claims.get(settings.sub_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenError(f"claim {settings.sub_claim} names no user")
    if len(user) > SUBJECT_CHARS_MAX or not user.isprintable():
        raise TokenError(f"claim {settings.sub_claim} is no user's name: {_shown(user)}")
    expires_s = min(claims["exp"], now_ms // 1000 + LIFETIME_MS_MAX // 1000)
    left_ms = int(expires_s * 1000) - now_ms
    # Our clock is ahead: what is taken is not ended at once.
    return Bearer(user, left_ms if left_ms > 0 else max(1, left_ms + settings.skew_s * 1000))


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
