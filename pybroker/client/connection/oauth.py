"""OAUTHBEARER tokens of a client (KIP-255, KIP-768, RFC 7628): from a callback, from a file, or from an identity
provider with the client's id and secret (RFC 6749, 4.4). All connections of a client share one source, which reuses a
token for four fifths of its lifetime."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote, urlencode, urlsplit

from pybroker.client.client_errors import AuthenticationError, BrokerConnectionError, ClientConfigError
from pybroker.client.config import ClientConfig
from pybroker.config.setting_values import InvalidValue
from pybroker.config.stores import StoreFile, StoreText
from pybroker.web_request import WebError, ask

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"

REFRESH_FACTOR = 0.8
"""Kafka's `sasl.login.refresh.window.factor`."""

TOKEN_BYTES_MAX = 1 << 20
_STORE = "ssl.truststore."
_CLIENT_ERRORS = range(400, 500)
_TOO_MANY_REQUESTS = 429


class Token(NamedTuple):
    """A token and its SASL extensions."""

    text: str
    renew_at: float = 0.0
    """Time in seconds since 1970 at which to renew the token; 0: do not cache it."""
    extensions: Mapping[str, str] = {}

    def message(self) -> bytes:
        """Return RFC 7628's first message."""
        pairs = {"auth": f"Bearer {self.text}", **self.extensions}
        return ("n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01").encode()


class TokenSource:
    """The tokens of one client. `get` returns a valid token."""

    def __init__(self, config: ClientConfig, jaas: Mapping[str, str]) -> None:
        """Check the settings. Raises ClientConfigError if one is missing."""
        self._config = config
        self._extensions = {
            name.removeprefix("extension_"): value for name, value in jaas.items() if name.startswith("extension_")
        }
        self._callback = config["oauth_cb"]
        self._url = config[ENDPOINT]
        self._client = config[CLIENT] or jaas.get("clientId")
        self._secret = config[SECRET] or jaas.get("clientSecret")
        self._scope = config["sasl.oauthbearer.scope"] or jaas.get("scope")
        if self._callback is not None:
            if not callable(self._callback):
                raise ClientConfigError("oauth_cb must be a function that returns a token")
        elif self._url is None:
            raise ClientConfigError(
                f"sasl.mechanism=OAUTHBEARER requires {ENDPOINT} or oauth_cb as the source of tokens"
            )
        elif self.file is None:
            if urlsplit(self._url).scheme not in ("https", "http"):
                raise ClientConfigError(f"{ENDPOINT}={self._url}: expected https://host/path or file:///path")
            for name, value in ((CLIENT, self._client), (SECRET, self._secret)):
                if not value:
                    raise ClientConfigError(f"{ENDPOINT}={self._url} requires {name}")
        self._truststore = _truststore(jaas)
        self._lock = asyncio.Lock()
        self._token: Token | None = None

    @property
    def file(self) -> str | None:
        """The path if the token is in a file, else None."""
        parts = urlsplit(self._url or "")
        return unquote(parts.path) if parts.scheme == "file" else None

    async def get(self) -> Token:
        """Return a token. Raises AuthenticationError if the provider refuses, BrokerConnectionError if it cannot be
        reached (a retry may succeed).
        """
        async with self._lock:
            if self._token is None or time.time() >= self._token.renew_at:
                self._token = await self._fetch()
            return self._token._replace(extensions={**self._extensions, **self._token.extensions})

    async def _fetch(self) -> Token:
        if self._callback is not None:
            return await _called(self._callback, self._config["sasl.oauthbearer.config"] or "")
        if self.file is not None:
            return _read(self.file)
        return await self._ask()

    async def _ask(self) -> Token:
        """Ask the identity provider; retry temporary errors for `sasl.login.retry.backoff.max.ms`."""
        pause, left = self._config.seconds("sasl.login.retry.backoff.ms"), None
        most = self._config.seconds("sasl.login.retry.backoff.max.ms")
        while True:
            try:
                return _answered(await asyncio.to_thread(self._post), self._url)
            except WebError as problem:
                message = f"{ENDPOINT}={self._url}: {problem}{_reason(problem.body)}"
                if problem.status in _CLIENT_ERRORS and problem.status != _TOO_MANY_REQUESTS:
                    raise AuthenticationError(message) from None
                left = most if left is None else left
                if left <= 0:
                    raise BrokerConnectionError(message) from None
            await asyncio.sleep(min(pause, left))
            left -= pause
            pause *= 2

    def _post(self) -> bytes:
        client, secret = self._client or "", self._secret or ""
        if self._config["sasl.oauthbearer.header.urlencode"]:
            client, secret = quote_plus(client), quote_plus(secret)
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        return ask(
            self._url,
            {
                "Authorization": f"Basic {base64.b64encode(f'{client}:{secret}'.encode()).decode()}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            body=urlencode(form, quote_via=quote).encode(),
            seconds=self._config.seconds("sasl.login.read.timeout.ms"),
            tls=self._trusting(),
        )

    def _trusting(self) -> ssl.SSLContext | None:
        """Return a TLS context with the truststore from the JAAS line (Java) or from librdkafka's setting. None if
        neither names a truststore; the system's authorities then apply.
        """
        authority = self._config["https.ca.location"]
        try:
            if self._truststore is not None:
                return ssl.create_default_context(cadata=self._truststore.trusted().decode())
            return None if authority is None else ssl.create_default_context(cafile=authority)
        except (InvalidValue, OSError) as problem:
            place = f"https.ca.location={authority}: " if self._truststore is None else ""
            raise ClientConfigError(f"{ENDPOINT}={self._url}: {place}{problem}") from None


def _truststore(jaas: Mapping[str, str]) -> StoreFile | StoreText | None:
    location, text = jaas.get(f"{_STORE}location"), jaas.get(f"{_STORE}certificates")
    if location is not None:
        return StoreFile(_STORE, jaas.get(f"{_STORE}type", "JKS"), location, jaas.get(f"{_STORE}password"))
    return None if text is None else StoreText(f"{_STORE}certificates", text)


async def _called(callback: Callable[[str], Any], config: str) -> Token:
    """Call confluent-kafka's `oauth_cb`: it returns (token, expiry in seconds since 1970[, principal[, extensions]]) or
    the token alone.
    """
    result = callback(config)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, str):
        return Token(_checked(result, "oauth_cb"))
    if not isinstance(result, tuple) or len(result) < 2 or not isinstance(result[1], int | float):
        raise ClientConfigError("oauth_cb must return a token, or (token, expiry in seconds since 1970)")
    extensions = result[3] if len(result) > 3 and result[3] else {}
    return Token(_checked(result[0], "oauth_cb"), _renewal(float(result[1])), dict(extensions))


def _read(path: str) -> Token:
    """Read the token from the file. This happens at each login, because another program renews the file."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(TOKEN_BYTES_MAX)
    except OSError as problem:
        raise AuthenticationError(f"{ENDPOINT}={path}: {problem.strerror}") from None
    return Token(_checked(content.decode("ascii", "replace").strip(), path))


def _answered(body: bytes, url: str) -> Token:
    try:
        answer = json.loads(body)
        text = answer["access_token"]
        lifetime_s = float(answer.get("expires_in") or 0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise AuthenticationError(f"{ENDPOINT}={url}: the response has no access_token") from None
    return Token(_checked(text, url), _renewal(time.time() + lifetime_s) if lifetime_s > 0 else 0.0)


def _renewal(expires_s: float) -> float:
    now = time.time()
    return now + (expires_s - now) * REFRESH_FACTOR


def _checked(text: object, place: str) -> str:
    """Return a well-formed token. Raises AuthenticationError if it is malformed; the message does not contain the
    token.
    """
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable() or " " in text:
        raise AuthenticationError(f"{place} contains no token")
    return text


def _reason(body: bytes) -> str:
    """Return RFC 6749's error code from an identity provider's response."""
    try:
        code = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return f" ({code[:80]!r})" if isinstance(code, str) else ""
