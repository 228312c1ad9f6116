"""The server side of SASL OAUTHBEARER (RFC 7628): one message with a token.

If the broker refuses the token, it sends the reason as JSON, the client acknowledges it, and then the authentication
fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pybroker.broker.security.oauth.bearer_token import Bearer, TokenError, UnknownKeyError
from pybroker.broker.security.oauth.provider_keys import ProviderKeys
from pybroker.broker.security.sasl_mechanisms import SaslFailedError, Step

_MESSAGE = re.compile(
    r"n,(?:a=(?P<user>(?:[^,=\x00\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]*\x01)+)\x01"
)
_BEARER = re.compile(r"bearer +([A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)

_ACKNOWLEDGED = b"\x01"
_INVALID = b'{"status":"invalid_token"}'


class OAuthConversation:
    """One OAUTHBEARER authentication."""

    def __init__(self, keys: ProviderKeys, check: Callable[[str], Bearer]) -> None:
        self._keys = keys
        self._check = check
        self._waited = False
        self._refused = False

    def answer(self, token: bytes) -> Step:
        """Check the client's token, or process its acknowledgement of a refusal.

        If `Step.wait` is set, keys are being fetched. When this future completes, call again with the same token.
        """
        if self._refused:
            acknowledged = token == _ACKNOWLEDGED
            text = _INVALID.decode() if acknowledged else "expected %x01 after a refusal"
            raise SaslFailedError(text, text, reported=acknowledged)
        token_text, authorization_id = _read(token)
        try:
            bearer = self._check(token_text)
        except UnknownKeyError as problem:
            newer = None if self._waited else self._keys.newer()
            if newer is None:
                return self._refuse(problem)
            self._waited = True
            return Step(b"", wait=newer)
        except TokenError as problem:
            return self._refuse(problem)
        if authorization_id not in ("", bearer.user):
            text = "Authentication failed: Client requested an authorization id that is different from the token's user"
            raise SaslFailedError(text, f"{text}: {authorization_id[:80]!r} instead of {bearer.user!r}")
        return Step(b"", bearer.user, left_ms=bearer.left_ms)

    def _refuse(self, problem: TokenError) -> Step:
        self._refused = True
        return Step(_INVALID, refused=str(problem))


def _read(message: bytes) -> tuple[str, str]:
    """Return the token and the authorization id. Raise AuthenticationError if the message is malformed."""

    def wrong(text: str) -> SaslFailedError:
        return SaslFailedError(f"Invalid OAUTHBEARER client first message: {text}", text)

    try:
        found = _MESSAGE.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise wrong("it is not UTF-8") from None
    if found is None:
        raise wrong("it does not have the form of RFC 7628")
    values = [pair.partition("=")[2] for pair in found["pairs"].split("\x01") if pair.startswith("auth=")]
    if len(values) != 1:
        raise wrong(f"expected one auth, found {len(values)}")
    bearer = _BEARER.fullmatch(values[0].strip())
    if bearer is None:
        raise wrong("auth is not a bearer token")
    return bearer[1], (found["user"] or "").replace("=2C", ",").replace("=3D", "=")
