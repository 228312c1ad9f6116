"""Reads an identity provider's key set, from a file or by its URL. Blocking: not for the event loop's thread."""

from __future__ import annotations

import ssl

from pybroker.broker.security.oauth.jwks import JwksError, KeySet
from pybroker.config.broker_oauth import OAuthSettings
from pybroker.config.setting_values import InvalidValue
from pybroker.files import read_regular
from pybroker.web_request import ANSWER_BYTES_MAX, WebError, ask


def read_keys(settings: OAuthSettings) -> KeySet:
    """Read and parse the key set. Raise JwksError if that fails; its text never contains the data."""
    path = settings.file
    return KeySet.parse(_fetched(settings) if path is None else _read(path))


def _read(path: str) -> bytes:
    try:
        content = read_regular(path, ANSWER_BYTES_MAX)
    except OSError as problem:
        raise JwksError(f"cannot read the file: {problem.strerror}") from None
    if len(content) > ANSWER_BYTES_MAX:
        raise JwksError(f"it is longer than {ANSWER_BYTES_MAX} bytes")
    return content


def _fetched(settings: OAuthSettings) -> bytes:
    try:
        return ask(settings.url, {"Accept": "application/jwk-set+json, application/json"}, tls=_context(settings))
    except WebError as problem:
        raise JwksError(str(problem)) from None


def _context(settings: OAuthSettings) -> ssl.SSLContext | None:
    store = settings.truststore
    if store is None:
        return None
    try:
        return ssl.create_default_context(cadata=store.trusted().decode())
    except (InvalidValue, ValueError, ssl.SSLError) as problem:
        raise JwksError(str(problem)) from None
