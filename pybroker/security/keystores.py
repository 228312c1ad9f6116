"""Reads what a listener with TLS shows, and whom it trusts."""

from __future__ import annotations

import re

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.values import InvalidValue
from pybroker.native import ListenerError, ListenerTls, NativeListeners

FILE_BYTES_MAX = 1 << 20
"""Longer than any keystore: something else was named by mistake."""


_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def listener_tls(settings: TlsSettings) -> ListenerTls:
    """Raises InvalidValue, which names the setting and the file, never with a key in it."""
    if settings.keystore is not None:
        key = certificates = _read("ssl.keystore.location", settings.keystore)
    else:
        key, certificates = (_inline(text) for text in (settings.key, settings.chain))
    if b"ENCRYPTED" in key:
        raise InvalidValue("the private key is encrypted; give it without a password, in a file that nobody else reads")
    trusted = b""
    if settings.client_auth != "none":
        if settings.truststore is not None:
            trusted = _read("ssl.truststore.location", settings.truststore)
        else:
            trusted = _inline(settings.trusted)
    return ListenerTls(
        certificates=certificates,
        key=key,
        trusted=trusted,
        client_auth=settings.client_auth,
        protocols=settings.protocols,
        cipher_suites=settings.cipher_suites,
        principal_rules=settings.principal_rules,
    )


def _read(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise InvalidValue(f"{setting}={path}: {problem.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise InvalidValue(f"{setting}={path}: longer than {FILE_BYTES_MAX} bytes; is this a keystore?")
    return content


def _inline(text: str | None) -> bytes:
    """PEM that a settings file has brought into one line has its ends on lines of their own again."""
    blocks = _BLOCK.findall(text or "")
    return "".join(
        f"-----BEGIN {kind}-----\n{''.join(body.split())}\n-----END {kind}-----\n" for kind, body in blocks
    ).encode()


def secure_all(listeners: NativeListeners, config: BrokerConfig) -> None:
    """Has each listener with TLS show what the settings name, from its next connection on. Raises InvalidValue, which
    names the listener."""
    for listener in config.listeners:
        if listener.protocol.endswith("SSL"):
            try:
                listeners.secure(listener.name, listener_tls(config.listener_tls(listener.name)))
            except InvalidValue as problem:
                raise InvalidValue(f"listener {listener.name}: {problem}") from None
            except ListenerError as problem:
                raise InvalidValue(f"listener {listener.name}: {problem.message}") from None
