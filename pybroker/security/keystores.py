"""Reads what a listener with TLS shows, and whom it trusts; again when the files change."""

from __future__ import annotations

import asyncio
import logging
import os
import re

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_tls import TlsSettings
from pybroker.config.values import InvalidValue
from pybroker.native import ListenerError, ListenerTls, NativeListeners

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""How often the files of keystores are looked at."""
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


class Keystores:
    """Has each listener with TLS show what the settings name, and again when one of the files changes: connections from
    then on see it, those that are open keep what they began with."""

    def __init__(self, listeners: NativeListeners, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._listeners = listeners
        self._loop = loop
        self._settings: dict[str, TlsSettings] = {}
        for listener in config.listeners:
            if listener.protocol.endswith("SSL"):
                self._settings[listener.name] = config.listener_tls(listener.name)
        self._seen: dict[str, _Marks] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Before the listeners are opened. Raises InvalidValue, which names the listener."""
        for name, settings in self._settings.items():
            self._seen[name] = _marks(settings)
            self._secure(name, settings)
        if any(self._seen.values()):
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Files are looked at no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _secure(self, name: str, settings: TlsSettings) -> None:
        try:
            self._listeners.secure(name, listener_tls(settings))
        except InvalidValue as problem:
            raise InvalidValue(f"listener {name}: {problem}") from None
        except ListenerError as problem:
            raise InvalidValue(f"listener {name}: {problem.message}") from None

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)
        for name, settings in self._settings.items():
            marks = _marks(settings)
            if marks == self._seen[name]:
                continue
            self._seen[name] = marks
            try:
                self._secure(name, settings)
            except InvalidValue as problem:
                log.error("%s; what it has shown so far stays", problem)
            else:
                log.info("listener %s has read its keystore and truststore again, for new connections", name)


_Marks = tuple[tuple[int, int, int] | None, ...]


def _marks(settings: TlsSettings) -> _Marks:
    """What tells a file from what it was before; empty without files."""
    marks: list[tuple[int, int, int] | None] = []
    for path in filter(None, (settings.keystore, settings.truststore)):
        try:
            found = os.stat(path)
            marks.append((found.st_mtime_ns, found.st_size, found.st_ino))
        except OSError:
            marks.append(None)
    return tuple(marks)
